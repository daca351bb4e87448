"""The folder of a prior: a UNet2DModel and its schedule as diffusers stores them, and what they were made from.

PRIOR/config.json  diffusion_pytorch_model.safetensors  scheduler_config.json   diffusers' own
PRIOR/prior.json             data, steps, versions; written last
PRIOR/trained-on.safetensors digests of the training images
PRIOR/samples.png            images drawn from it
"""

from __future__ import annotations

import hashlib
import importlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from leakscope.errors import Problem, each, refusal, refuse, refusing
from leakscope.files import read_object, write_json, writing
from leakscope.prior.denoiser import Denoiser
from leakscope.prior.images import digests
from leakscope.types import ClientBatch

CONFIG, SCHEDULE, WEIGHTS = "config.json", "scheduler_config.json", "diffusion_pytorch_model.safetensors"
FACTS, TRAINED_ON = "prior.json", "trained-on.safetensors"
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
MAKE = "leakscope prior train --data femnist_public --out PATH"


def diffusers() -> Any:
    """The package, imported when it is needed: it is an extra, and takes seconds."""
    with refusing("diffusion priors need diffusers", ImportError, fix="pip install 'leakscope[diffusion]'"):
        return importlib.import_module("diffusers")


def find_prior(name: str) -> Path:
    """The folder of a prior: a path, or the name of a model on the Hugging Face hub, fetched where a network is."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if not HUB_NAME.fullmatch(name):
        raise refusal(f"there is no prior in {name}: no such folder", fix=MAKE)
    diffusers()  # brings the hub's client along
    hub: Any = importlib.import_module("huggingface_hub")
    found = f"the prior {name} is no folder here and could not be fetched from the Hugging Face hub"
    with refusing(found, OSError, ValueError, fix=f"give the folder of a downloaded one, or make one: {MAKE}"):
        return Path(hub.snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))


def fingerprint(folder: Path) -> str:
    """First 16 hex digits of the SHA-256 of what determines the denoiser: weights, network and schedule."""
    digest = hashlib.sha256()
    for name in (CONFIG, SCHEDULE, WEIGHTS):
        digest.update(_place(folder, name).read_bytes())
    return digest.hexdigest()[:16]


def check_prior(folder: Path) -> None:
    """Refuse a folder that holds no unconditional pixel model that predicts its noise, with all reasons at once."""
    missing = [name for name in (CONFIG, SCHEDULE, WEIGHTS) if not _place(folder, name).is_file()]
    refuse(
        Problem(f"{folder} has no {name}", why="a prior is a folder as diffusers saves it, in safetensors", fix=MAKE)
        for name in missing
    )
    refuse(_problems(folder, *each(lambda name: read_object(_place(folder, name), fix=MAKE), (CONFIG, SCHEDULE))))


def _problems(folder: Path, config: Mapping[str, Any], schedule: Mapping[str, Any]) -> Iterator[Problem]:
    facts = (
        (config.get("_class_name") == "UNet2DModel", f"is a {config.get('_class_name')}, not a UNet2DModel"),
        (config.get("in_channels") == config.get("out_channels"), "predicts more than the noise"),
        (config.get("num_class_embeds") is None, "wants to be told a class"),
        (isinstance(config.get("sample_size"), int), "is not for square images of one size"),
        (schedule.get("prediction_type", "epsilon") == "epsilon", "does not predict the noise"),
    )
    for good, complaint in facts:
        if not good:
            yield Problem(f"the model in {folder} {complaint}", fix=MAKE)


def read_denoiser(folder: Path) -> Denoiser:
    """The network in single precision, frozen, with its schedule."""
    check_prior(folder)
    library, place = diffusers(), _place(folder, CONFIG).parent
    loading = {"use_safetensors": True, "low_cpu_mem_usage": False, "local_files_only": True}
    # whatever diffusers makes of settings that do not fit together
    with refusing(f"the prior in {folder} cannot be read", Exception, fix=MAKE):
        network = library.UNet2DModel.from_pretrained(place, **loading)
        scheduler = library.DDPMScheduler.from_config(read_object(_place(folder, SCHEDULE), fix=MAKE))
    return as_denoiser(network.eval().requires_grad_(False).float(), scheduler)


def as_denoiser(network: nn.Module, scheduler: Any) -> Denoiser:
    """What a diffusers network and schedule are as a denoiser."""
    signal = torch.cat([torch.ones(1), scheduler.alphas_cumprod.float()])
    config: Any = network.config
    return Denoiser(network, signal, config.in_channels, config.sample_size)


def read_facts(folder: Path) -> dict[str, Any]:
    """prior.json; a model that somebody else trained has none."""
    path = folder / FACTS
    return read_object(path, fix=MAKE) if path.is_file() else {}


def write_prior(folder: Path, network: Any, scheduler: Any, facts: Mapping[str, Any], trained_on: Tensor) -> None:
    """Every file is whole or absent, and prior.json, which says that all are there, comes last."""
    (folder / FACTS).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".prior-") as aside:
        network.save_pretrained(aside)
        scheduler.save_pretrained(aside)
        for name in (CONFIG, SCHEDULE, WEIGHTS):
            with writing(folder / name) as path:
                shutil.copyfile(Path(aside) / name, path)
    with writing(folder / TRAINED_ON) as path:
        save_file({"digests": trained_on}, path)
    write_json(folder / FACTS, {**facts, "fingerprint": fingerprint(folder)})


def refuse_overlap(folder: Path, batch: ClientBatch) -> None:
    """A prior that has seen the client's own images would not be an attack but a memory of them."""
    path = folder / TRAINED_ON
    if not path.is_file():
        return
    known = set(load_file(path)["digests"].tolist())
    shared = sum(one in known for one in digests(batch.images).tolist())
    if shared:
        raise refusal(
            f"the prior in {folder} was trained on {shared} of the client's {len(batch)} images",
            why="it would remember them",
            fix="leakscope prior train --avoid SEEDS --avoid-n N, with the seeds and --n of the audited clients",
        )


def require_same(folder: Path, wanted: str) -> None:
    """Refuse a prior that has changed since the run was planned."""
    if fingerprint(folder) != wanted:
        found = f"the prior in {folder} is not the one that this run was planned with"
        raise refusal(found, why="results of different priors would be mixed", fix="choose another --out")


def _place(folder: Path, name: str) -> Path:
    """Where a file is: in the folder itself, or where a diffusers pipeline keeps it."""
    inside = {CONFIG: "unet", WEIGHTS: "unet", SCHEDULE: "scheduler"}[name]
    return next((path for path in (folder / name, folder / inside / name) if path.is_file()), folder / name)
