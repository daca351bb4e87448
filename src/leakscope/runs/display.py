"""What a person sees while cells run: one bar per running cell, one for the whole, with the time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from leakscope.cells.identity import titles
from leakscope.cells.spec import Cell
from leakscope.runs.time_left import TimeLeft

if TYPE_CHECKING:
    from leakscope.runs.watching import Notice

BARS = "▁▂▃▄▅▆▇█"

console = Console(stderr=True, markup=False, highlight=False)
"""Everything for people goes to stderr; stdout is for --json alone. Nothing that is said is read as markup."""


def marked(word: str, style: str, text: object) -> Text:
    """A coloured word, and what it is about."""
    return Text.assemble((word, style), f" {text}")


def said(text: str, *more: str) -> Text:
    """A sentence with further lines below it, which a table wraps as one."""
    return Text(text) + Text("".join(f"\n{line}" for line in more if line), "dim")


class Display:
    """Turns live events into progress bars."""

    def __init__(self, progress: Progress, cells: list[Cell], *, workers: int = 1) -> None:
        self.progress = progress
        self.left = TimeLeft(cells, workers=workers)
        self.names = titles([cell.identity for cell in cells])
        self.bars: dict[str, TaskID] = {}
        self.curves: dict[str, list[float]] = {}
        self.whole = progress.add_task("all cells", total=len(cells), note="", visible=len(cells) > 1)

    def __call__(self, event: dict[str, Any]) -> None:
        kind, key = event["event"], event["key"]
        self.left(event)
        self.progress.update(self.whole, note=str(self.left))
        if kind in ("start", "progress", "end"):
            bar = self._bar(key, event["iterations"])
            curve = self.curves.setdefault(key, [])
            if event.get("psnr") is not None and curve[-1:] != [event["psnr"]]:
                curve.append(event["psnr"])
            self.progress.update(bar, completed=event["iteration"], note=f"{_note(event)} {sparkline(curve)}")
        if kind == "plan" and key in self.bars:
            self.progress.update(self.bars[key], note=f"about {event['memory']['needed_mb']} MB")
        if kind == "preparing" and key in self.bars:
            self.progress.update(self.bars[key], note=f"{event['what']} {event['done']}/{event['total']}")
        if kind in ("end", "failed"):
            self.progress.advance(self.whole)
            if len(self.names) > 1 and key in self.bars:
                self.progress.update(self.bars[key], visible=False)
        if kind == "failed":
            console.print(marked("failed", "red", f"{self.names.get(key, key)}: {event['error']}"))

    def _bar(self, key: str, iterations: int) -> TaskID:
        if key not in self.bars:
            self.bars[key] = self.progress.add_task(self.names.get(key, key), total=iterations, note="")
        return self.bars[key]


class Lines:
    """The same for a log file: a line for each cell that ended, with the time left."""

    def __init__(self, cells: list[Cell], *, workers: int = 1) -> None:
        self.names = titles([cell.identity for cell in cells])
        self.left = TimeLeft(cells, workers=workers)
        self.ended: set[str] = set()

    def __call__(self, event: dict[str, Any]) -> None:
        kind, key = event["event"], event["key"]
        self.left(event)
        if kind in ("end", "failed") and key not in self.ended:
            self.ended.add(key)
            what = _note(event) if kind == "end" else f"failed: {event['error']}"
            done = f"{len(self.ended)}/{len(self.names)}"
            console.print(f"{done}  {self.names.get(key, key)}  {what}  {self.left}", soft_wrap=True)


def sparkline(values: list[float], *, width: int = 16) -> str:
    """The last values as a row of bars.

    >>> sparkline([1, 2, 3])
    '▁▄█'
    """
    shown = values[-width:]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    scale = (len(BARS) - 1) / ((high - low) or 1.0)
    return "".join(BARS[int((value - low) * scale)] for value in shown)


def _note(event: dict[str, Any]) -> str:
    shown = [f"PSNR {event['psnr']:.1f} dB"] if event.get("psnr") is not None else []
    shown += [f"L_sim {event['l_sim']:.4f}"] if event.get("l_sim") is not None else []
    return "  ".join(shown)


def bars() -> Progress:
    """Bars with what is done, the time so far and the time left; tasks have a `note`."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


@contextmanager
def showing(cells: list[Cell], *, quiet: bool, workers: int = 1, log: bool = False) -> Iterator[Notice]:
    """Bars on a terminal; else nothing, or with `log` a line for each cell that ended."""
    if quiet or not sys.stderr.isatty():
        yield Lines(cells, workers=workers) if log and not quiet else lambda _: None
        return
    with bars() as progress:
        yield Display(progress, cells, workers=workers)
