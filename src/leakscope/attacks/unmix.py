"""From the span of the private images to the images themselves.

Where the first layer sees the raw image, dW = C X^T exactly, with X (D, N) the private images and C (m, N). In the
basis V of the row space M = dW V = C Z, with Z (N, N) the images' coordinates. Two things tell the right mixture:

- A unit of a ReLU layer that an image never excites has a zero in that image's column of C. About half of C is zero,
  so M q is sparse for the columns q of Z^-1 and for no other direction (the idea behind SPEAR, Dimitrov et al. 2024).
- Writing and scans stand on a constant page: most pixels of every image are exactly white (or black).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakscope.attacks.changes import Moment
from leakscope.attacks.known import Known, Variables

SPARSE = 0.3
"""Share of zeros from which on a direction counts as one image's column of C; mixtures of two have about a quarter."""
ROUNDS = 4
"""How often columns are searched in a row, at most."""
PAGE = 0.5
"""Share of pixels near white or black from which on images are taken to stand on a page."""


@dataclass(frozen=True, kw_only=True)
class Unmix:
    """Sharpens the mixture between iterations, at the parts of them in `at`."""

    at: tuple[float, ...] = (0.3, 0.45, 0.6, 0.75, 0.9, 1.0)

    def __call__(
        self,
        v: Variables,
        known: Known,
        memory: dict[str, Tensor],
        moment: Moment,  # noqa: ARG002
    ) -> dict[str, Tensor]:
        """New coordinates z (N, r); `memory` keeps the columns of C that were found before."""
        basis, z = known.constants["span"].double(), v["z"].double()
        if (page := page_value(z @ basis.T, known)) is not None:
            z = fill_pages(z, basis, page, known)
        mixture = Mixture.of(known, basis)
        columns = memory.get("columns", z.new_zeros(z.shape[1], 0))
        for _ in range(ROUNDS):  # columns that were found clean the images from which the next ones are searched
            before = columns.shape[1]
            columns = mixture.harvest(z, columns)
            z = mixture.apply(z, columns)
            if columns.shape[1] == before:
                break
        memory["columns"] = columns
        return {"z": z.to(v["z"])}


@dataclass(frozen=True)
class Mixture:
    """M = U S W^T: every column of C is U p for some unit vector p. The rank r is N, less images without a gradient."""

    left: Tensor
    """U (m, r)."""
    sizes: Tensor
    right: Tensor
    """W^T (r, r)."""
    basis: Tensor
    """V (D, r)."""
    weights: tuple[tuple[Tensor, Tensor], ...]
    """(W, b) of the layer before and after local training."""
    bias: Tensor
    """Update of the bias (m,) = C 1, which fixes the scale of every column."""

    @classmethod
    def of(cls, known: Known, basis: Tensor) -> Mixture:
        def layer(w: Tensor) -> tuple[Tensor, Tensor]:
            named = known.split(w)
            weight = named[f"{known.feature_layer}.weight"].double()
            return weight, named.get(f"{known.feature_layer}.bias", weight.new_zeros(len(weight))).double()

        dW, db = layer(known.delta)
        left, sizes, right = torch.linalg.svd(dW @ basis, full_matrices=False)
        return cls(left, sizes, right, basis, (layer(known.w0), layer(known.wT)), db)

    def harvest(self, z: Tensor, before: Tensor) -> Tensor:
        """Columns p (r, found) that are as sparse as an image's column of C, searched from the images z (N, r)."""
        found: list[Tensor] = list(before.T)
        starts = (self.sizes[:, None] * (self.right @ torch.linalg.pinv(z))).T
        for drive, start in zip(self._drive(z), starts, strict=True):
            if len(found) < len(self.sizes) and not _among(start / start.norm(), found):
                found += self._search(drive, start, found)
        if not found:
            return before
        shares = [self._zeros(p) for p in found]
        usual = sorted(shares)[len(shares) // 2]
        kept = [p for p, share in zip(found, shares, strict=True) if share > 0.85 * usual]
        return torch.stack(kept[: len(self.sizes)], dim=1)

    def _search(self, drive: Tensor, start: Tensor, found: list[Tensor]) -> list[Tensor]:
        """A new column near `start` (r,), or none: the units with the lowest `drive` (m,) are taken to be silent."""
        for share in (0.1, 0.2, 0.3):
            quiet = (drive < drive.quantile(share)).double().clamp_min(1e-3)
            p = self._sparsest(start, quiet)
            if self._zeros(p) > SPARSE and not _among(p, found):
                return [p]
        return []

    def apply(self, z: Tensor, columns: Tensor) -> Tensor:
        """Coordinates that agree with the columns found: exact ones where all r are there.

        Z Q = 1 for Q = W S^-1 P up to scales: each image has a component along its own column of Q and no other.
        """
        if columns.shape[1] == 0:
            return z
        dual = self.right.T @ (columns / self.sizes[:, None])
        if columns.shape[1] == len(self.sizes) and bool(self.bias.any()):
            mixed = self.left @ columns
            scale = torch.linalg.lstsq(mixed, self.bias[:, None]).solution[:, 0]
            exact = torch.linalg.inv_ex(dual * scale).inverse
            if bool(exact.isfinite().all()):
                return _in_order_of(z, exact)
        along = z @ dual
        owners = linear_sum_assignment(-(along.abs() / along.norm(dim=0)).T.cpu().numpy())[1]
        strange = along.clone()
        strange[owners, range(len(owners))] = 0
        cleaned: Tensor = z - strange @ torch.linalg.pinv(dual)
        return cleaned

    def _drive(self, z: Tensor) -> Tensor:
        """(N, m): the larger pre-activation before and after training; very negative means never excited."""
        x = z @ self.basis.T
        before, after = (x @ weight.T + bias for weight, bias in self.weights)
        return torch.maximum(before, after)

    def _sparsest(self, p: Tensor, weights: Tensor, *, rounds: int = 60) -> Tensor:
        """Iteratively reweighted least squares for min |U p|_0 near p, |p| = 1, with fading smoothing."""
        p, smooth = p / p.norm(), 0.3
        for _ in range(rounds):
            moved = _solve(self.left.T @ (weights[:, None] * self.left), p)
            p = moved / moved.norm()
            weights = 1 / (self._column(p).square() + smooth**2)
            smooth = max(0.8 * smooth, 1e-4)
        return p

    def _column(self, p: Tensor) -> Tensor:
        """U p with a root mean square of one."""
        column: Tensor = (self.left @ p) * len(self.left) ** 0.5
        return column

    def _zeros(self, p: Tensor) -> float:
        return float((self._column(p).abs() < 0.01).double().mean())


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
        both = _solve(system, torch.stack([basis.T @ (weights * page), held], dim=1))
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


def _solve(system: Tensor, right: Tensor) -> Tensor:
    """system^-1 right, not finite where the system is singular: a start that leads nowhere is left, not an error."""
    solution: Tensor = torch.linalg.solve_ex(system, right).result
    return solution


def _same(one: Tensor, other: Tensor) -> bool:
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0)) > 0.99


def _among(p: Tensor, found: list[Tensor]) -> bool:
    """Whether a unit vector is one of those found, up to its sign."""
    return any(abs(float(p @ other)) > 0.99 for other in found)


def _in_order_of(z: Tensor, found: Tensor) -> Tensor:
    """z (N, r) with the nearest rows replaced by those of `found` (r, r): each dummy image keeps its label."""
    rows, columns = linear_sum_assignment(torch.cdist(z, found).cpu().numpy())
    ordered = z.clone()
    ordered[rows] = found[columns]
    return ordered
