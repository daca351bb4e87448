"""Peak memory of what runs between two calls."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")


def reset_peak_memory(device: str) -> None:
    """Forget earlier peaks, where the system allows it (CUDA, Linux)."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    elif STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb(device: str) -> float:
    """Peak of the device's allocator, or of the whole process on a CPU (torch itself takes about 250 MB)."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20


def available_mb(device: torch.device) -> float | None:
    """What is free on the device, None where nobody says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 2**20
    meminfo = Path("/proc/meminfo")
    if device.type != "cpu" or not meminfo.exists():
        return None
    line = next((line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable")), None)
    return None if line is None else int(line.split()[1]) / 1024
