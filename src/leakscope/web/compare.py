"""Two runs side by side: the same attack against the same defense on the same client, before and after a change."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.report.gallery import Strip, strip, title_of
from leakscope.report.reading import Run, by_severity
from leakscope.verdict.levels import Cell, Level, find, is_scored, number

SHOWN = 5


@dataclass(frozen=True)
class Side:
    """One cell as the table shows it."""

    level: Level
    identified: str
    psnr: float | None
    gain: float | None
    ssim: float | None


@dataclass(frozen=True)
class Pair:
    """The same cell in both runs; None where one of them does not have it."""

    title: str
    left: Side | None
    right: Side | None

    @property
    def change(self) -> float | None:
        """PSNR of the right one minus that of the left one, in dB."""
        if self.left is None or self.right is None or self.left.psnr is None or self.right.psnr is None:
            return None
        return self.right.psnr - self.left.psnr


def pair(left: Run, right: Run) -> list[Pair]:
    """The cells of both runs, matched by attack, defense, client and round; those that both have come first."""
    ours, theirs = ({title_of(cell): cell for cell in run.cells} for run in (left, right))
    titles = sorted({**ours, **theirs}, key=lambda title: not (title in ours and title in theirs))
    return [Pair(title, _side(ours.get(title)), _side(theirs.get(title))) for title in titles]


def worst_strip(run: Run) -> Strip | None:
    """The most leaked images of the run's worst cell."""
    cells = by_severity(run.cells)
    return strip(run, cells[0], redact=False, most=SHOWN) if cells else None


def _side(cell: Cell | None) -> Side | None:
    if cell is None:
        return None
    scored = is_scored(cell)
    finding = find(cell)
    psnr, guess = number(cell["metrics"].get("psnr")), number(cell["baseline"].get("psnr"))
    return Side(
        level=finding.level if scored else "unknown",
        identified=f"{finding.identified} of {finding.n}" if scored and finding.identified is not None else "–",
        psnr=psnr,
        gain=psnr - guess if psnr is not None and guess is not None else None,
        ssim=number(cell["metrics"].get("ssim")),
    )
