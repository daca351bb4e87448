"""The onlooker of a cell: live events, a preview picture, PSNR along the way, checkpoints, and the stop signal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from PIL import Image
from torch import Tensor

from leakscope.attacks.watch import Watch
from leakscope.cells.scene import Truth
from leakscope.files import writing
from leakscope.metrics import assign
from leakscope.metrics.psnr import psnr
from leakscope.runs.pictures import strip
from leakscope.runs.store import Run

CHECKPOINT_SECONDS = 60.0
EVENT_SECONDS = 0.5
PREVIEW_SECONDS = 2.0

SHOWN = ("objective", "l_sim", "psnr")

Notice = Callable[[dict[str, Any]], None]


class CellWatch(Watch):
    """Scores against the truth on this side of the firewall; nothing it sees goes back to the attack."""

    def __init__(
        self,
        run: Run,
        key: str,
        truth: Truth | None,
        *,
        stopped: Callable[[], bool],
        notice: Notice = lambda _: None,
    ) -> None:
        self.run, self.key, self.truth = run, key, truth
        self.stopped, self.notice = stopped, notice
        self.kept = self.told = time.monotonic()
        self.pictured = 0.0
        self.latest: dict[str, float] = {}

    def look(self, row: Mapping[str, float], images: Tensor, labels: Tensor) -> Mapping[str, float]:
        del labels
        extra: dict[str, float] = {}
        found = images.cpu()
        if self.truth is not None:
            originals = self.truth.batch.images
            found = found[list(assign(originals, found))]
            extra["psnr"] = float(psnr(originals, found).mean())
        self.latest = {**row, **extra}
        self._preview(found)
        return extra

    def tick(self, iteration: int, iterations: int) -> None:
        now = time.monotonic()
        if now - self.told >= EVENT_SECONDS or iteration == iterations:
            self.told = now
            self.tell("progress", iteration=iteration, iterations=iterations)

    def plan(self, notes: Mapping[str, object]) -> None:
        if "memory" in notes:
            self.tell("plan", memory=notes["memory"])

    def prepare(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.told >= EVENT_SECONDS or done == total:
            self.told = now
            self.tell("preparing", what=what, done=done, total=total)

    def tell(self, event: str, **facts: object) -> None:
        shown: dict[str, Any] = {name: value for name, value in self.latest.items() if name in SHOWN}
        fact: dict[str, Any] = {"event": event, "key": self.key, **shown, **facts}
        self.run.event(fact)
        self.notice(fact)

    def keep(self, checkpoint: Callable[[], dict[str, Any]]) -> None:
        stopping = self.stopped()
        if stopping or time.monotonic() - self.kept >= CHECKPOINT_SECONDS:
            self.run.save_checkpoint(self.key, checkpoint())
            self.kept = time.monotonic()
            self.tell("checkpoint")

    def stop(self) -> bool:
        return self.stopped()

    def _preview(self, found: Tensor) -> None:
        if time.monotonic() - self.pictured < PREVIEW_SECONDS:
            return
        self.pictured = time.monotonic()
        rows = [found] if self.truth is None else [self.truth.batch.images, found]
        picture = strip(rows)
        with writing(self.run.place(self.key) / "preview.png") as aside:
            Image.fromarray(picture).save(aside, format="PNG")
