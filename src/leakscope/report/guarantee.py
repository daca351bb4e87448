"""What differential privacy promises for a cell: shown beside the measured leakage, never merged with it."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.cells.record import Record
from leakscope.verdict.levels import number


@dataclass(frozen=True)
class Guarantee:
    """The epsilon of a whole run where an accountant gave one, and the nominal one that the noise was set by."""

    accounted: float | None
    nominal: float | None
    assumption: str = ""
    """What the accounted value takes for granted."""

    @property
    def epsilon(self) -> float | None:
        return self.accounted if self.accounted is not None else self.nominal

    def __str__(self) -> str:
        parts = ((self.accounted, "accounted"), (self.nominal, "nominal"))
        known = [f"{value:.3g} {word}" for value, word in parts if value is not None]
        return f"epsilon {', '.join(known)}" if known else "no epsilon: no noise, so no guarantee"


def guarantee_of(cell: Record) -> Guarantee | None:
    """From the notes a defense left; None where none speaks of differential privacy."""
    if notes := cell.note("dpsgd"):
        accounted, nominal = (number(notes.get(f"{kind}_epsilon")) for kind in ("accounted", "nominal"))
        return Guarantee(accounted, nominal, str(notes.get("assumption") or ""))
    epsilon = number(cell.notes.get("epsilon"))
    return None if epsilon is None else Guarantee(epsilon, None)
