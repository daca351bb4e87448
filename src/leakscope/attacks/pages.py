"""Images on a constant page: writing and scans, of which most pixels are exactly white (or black)."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.attacks.known import Known

PAGE = 0.5
"""Share of pixels near white or black from which on images are taken to stand on a page."""


def page_value(x: Tensor, known: Known) -> float | None:
    """The normalised value of the page, where most pixels (N, D) are near white or near black."""
    low, high = (float(edge.mean()) for edge in known.normalisation.box(x))
    for edge in (high, low):
        if float(((x - edge).abs() < 0.1 * (high - low)).double().mean()) > PAGE:
            return edge
    return None


def fill_pages(z: Tensor, basis: Tensor, page: float, known: Known) -> Tensor:
    """Move every image (coordinates z) to the nearest one in the span with the most pixels exactly on the page.

    An image that arrives where another one already is stays where it was.
    """
    low, high = (float(edge.mean()) for edge in known.normalisation.box(basis))
    filled: list[Tensor] = []
    for start in z:
        end = start
        for _ in range(3):
            end = _fill_page(end, basis, page, high - low)
        twin = any(_same(basis @ end - page, basis @ other - page) for other in filled)
        filled.append(start if twin else end)
    return torch.stack(filled)


def _fill_page(z: Tensor, basis: Tensor, page: float, contrast: float) -> Tensor:
    """Reweighted least squares for a sparse V z - page that keeps the ink it has, then a fit to the page alone.

    Without a fixed amount of ink the sparsest answer would be the empty page.
    """
    before, start = z, basis @ z - page
    ink = torch.where(start.abs() > 0.15 * contrast, start, 0 * start)
    if not bool(ink.any()):
        return z
    held, amount, smooth = basis.T @ ink, ink @ (start + page), 0.05 * contrast
    for _ in range(60):
        weights = 1 / ((basis @ z - page).square() + smooth**2)
        system = basis.T @ (weights[:, None] * basis)
        both = solve(system, torch.stack([basis.T @ (weights * page), held], dim=1))
        z = both[:, 0] + (amount - held @ both[:, 0]) / (held @ both[:, 1]) * both[:, 1]
        smooth = max(0.85 * smooth, 1e-3 * contrast)
    if not bool(z.isfinite().all()):
        return before
    for tolerance in (0.1, 0.05, 0.02, 0.01, 0.005):
        blank = (basis @ z - page).abs() < tolerance * contrast
        if int(blank.sum()) < 3 * len(z):
            break
        fitted = torch.linalg.lstsq(basis[blank], basis.new_full((int(blank.sum()), 1), page)).solution[:, 0]
        if (basis @ fitted - page).norm() < 0.5 * (basis @ z - page).norm():
            break
        z = fitted
    return z


def solve(system: Tensor, right: Tensor) -> Tensor:
    """system^-1 right, not finite where the system is singular: a start that leads nowhere is left, not an error."""
    solution: Tensor = torch.linalg.solve_ex(system, right).result
    return solution


def _same(one: Tensor, other: Tensor) -> bool:
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0)) > 0.99
