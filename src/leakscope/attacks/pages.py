"""Images on a constant page: writing and scans, of which most pixels are exactly white (or black)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from leakscope.attacks.known import Known

PAGE = 0.5
"""Share of pixels near white or black from which on images are taken to stand on a page."""
SLACK = 1e-5
"""How far out of the box, as a part of it, rounding may put a pixel."""


def page_value(x: Tensor, known: Known) -> float | None:
    """The normalised value of the page, where most pixels (N, D) are near white or near black."""
    low, high = (float(edge.mean()) for edge in known.normalisation.box(x))
    for edge in (high, low):
        if float(((x - edge).abs() < 0.1 * (high - low)).double().mean()) > PAGE:
            return edge
    return None


def fill_pages(z: Tensor, basis: Tensor, page: float, known: Known, level: Tensor) -> Tensor:
    """Move every image (coordinates z (N, r)) to a corner of what is possible: all pixels in the box, z level = 1.

    Ink only goes one way from the page, so the private images are corners in which most pixels touch an edge of the box
    at once, and a linear programme that asks for the ink an image seems to have ends in one of them. An image that
    arrives where another one already is stays where it was.
    """
    filled: list[Tensor] = []
    edges = [float(edge.mean()) for edge in known.normalisation.box(basis)]
    possible = Possible.of(basis, page, edges, level)
    for start in z:
        end = start
        for _ in range(2):
            end = possible.corner(end)
        twin = any(_same(basis @ end - page, basis @ other - page) for other in filled)
        filled.append(start if twin else end)
    return torch.stack(filled)


@dataclass(frozen=True)
class Possible:
    """The images of the span with all pixels in the box, and level 1 where that is known."""

    ink: np.ndarray
    """(D, r): the ink of an image is page_ink - ink z, between 0 and 1."""
    page_ink: float
    level: np.ndarray | None

    @classmethod
    def of(cls, basis: Tensor, page: float, edges: Sequence[float], level: Tensor) -> Possible:
        other = edges[0] if page == edges[1] else edges[1]
        known = level.cpu().numpy()[None] if bool(level.any()) else None
        return cls(basis.cpu().numpy() / (page - other), page / (page - other), known)

    def corner(self, z: Tensor) -> Tensor:
        """The corner with the most ink where z (r,) has more than half of it, and the least elsewhere; or z itself."""
        wanted = np.clip(self.page_ink - self.ink @ z.cpu().numpy(), 0, 1) - 0.5
        if not np.isfinite(wanted).all():
            return z
        found = linprog(
            wanted @ self.ink,
            A_ub=np.concatenate([self.ink, -self.ink]),
            b_ub=np.repeat([self.page_ink + SLACK, 1 - self.page_ink + SLACK], len(self.ink)),
            A_eq=self.level,
            b_eq=None if self.level is None else [1.0],
            bounds=(None, None),
        )
        return z if found.x is None else torch.from_numpy(found.x).to(z)


def _same(one: Tensor, other: Tensor) -> bool:
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0)) > 0.99
