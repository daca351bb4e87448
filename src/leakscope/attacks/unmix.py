"""From the span of the private images to the images themselves.

Where the first layer sees the raw image, dW = C X^T exactly, with X (D, N) the private images and C (m, N). In the
basis V of the row space M = dW V = C Z, with Z (N, N) the images' coordinates. Two things tell the right mixture:

- A unit of a ReLU layer that an image never excites has a zero in that image's column of C. About half of C is zero,
  so M q is sparse for the columns q of Z^-1 and for no other direction (the idea behind SPEAR, Dimitrov et al. 2024).
- Writing and scans stand on a constant page: most pixels of every image are exactly white (or black).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakscope.attacks.composition import Composition, Moment, Renewed
from leakscope.attacks.known import Known, Variables
from leakscope.attacks.pages import fill_pages, page_value
from leakscope.attacks.span import SpanImages

SPARSE = 0.25
"""Share of zeros from which on a direction is looked at as one image's column of C."""
ROUNDS = 8
"""How often columns are searched in a row, at most."""
FRESH = 20
"""Random starts where no image leads to another column."""
USUAL, UNUSUAL = 3.0, 6.0
"""How many standard deviations a column may be less sparse than the others: first, and where nothing else is left."""
BEYOND = 0.02
"""How far out of the box, as a part of it and root mean square, an image may always be."""


@dataclass(frozen=True, kw_only=True)
class Unmix:
    """Sharpens the mixture of SpanImages between iterations, at the parts of them in `at`."""

    at: tuple[float, ...] = (0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
    columns: Tensor | None = field(default=None, repr=False)
    """(r, found): the columns of C that were found before."""

    def __call__(self, v: Variables, attack: Composition, known: Known, moment: Moment) -> Renewed:  # noqa: ARG002
        """New coordinates z (N, r)."""
        assert isinstance(attack.images, SpanImages)
        basis, before = attack.images.span.double(), v["z"].double()
        page, mixture = page_value(before @ basis.T, known), Mixture.of(known, basis)
        columns = before.new_zeros(before.shape[1], 0) if self.columns is None else self.columns
        generator = torch.Generator().manual_seed(columns.shape[1])

        def filled(images: Tensor) -> Tensor:
            return images if page is None else fill_pages(images, basis, page, known, mixture.level)

        def starts(z: Tensor, rest: list[int], columns: Tensor) -> Iterator[tuple[Tensor, float]]:
            yield z[rest], USUAL
            fresh = filled(mixture.anew(z, columns, generator))
            yield fresh, USUAL
            yield torch.cat([z[rest], fresh]), UNUSUAL

        for _ in range(ROUNDS):  # columns that were found clean the images from which the next ones are searched
            z, rest = mixture.apply(before, columns)
            if not rest:
                break
            z[rest] = filled(z[rest])
            more = (
                found
                for images, spread in starts(z, rest, columns)
                if (found := mixture.harvest(images, columns, spread)).shape[1] > columns.shape[1]
            )
            found = next(more, columns)
            if found is columns:
                break
            columns = found
        complete = columns.shape[1] == len(mixture.sizes)
        if complete:
            z, _ = mixture.apply(before, columns)
        kept = inside(z, before, basis, known)
        renewed = replace(attack, renewal=replace(self, columns=columns))
        return Renewed(renewed, {"z": kept.to(v["z"])}, finished=complete and torch.equal(kept, z))


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
    level: Tensor
    """beta (r,) with Z beta = 1, from M beta = C 1: where every image lies in the span; zero where there is no bias."""

    @classmethod
    def of(cls, known: Known, basis: Tensor) -> Mixture:
        def layer(w: Tensor) -> tuple[Tensor, Tensor]:
            named = known.split(w)
            weight = named[f"{known.feature_layer}.weight"].double()
            return weight, named.get(f"{known.feature_layer}.bias", weight.new_zeros(len(weight))).double()

        dW, db = layer(known.delta)
        left, sizes, right = torch.linalg.svd(dW @ basis, full_matrices=False)
        level = right.T @ ((left.T @ db) / sizes)
        return cls(left, sizes, right, basis, (layer(known.w0), layer(known.wT)), db, level)

    def harvest(self, images: Tensor, before: Tensor, spread: float) -> Tensor:
        """Columns p (r, found) as sparse as an image's column of C, searched from images (k, r).

        New ones must be about as sparse as those usually are, to `spread` standard deviations of a count of m units.
        """
        found: list[Tensor] = list(before.T)
        for z, drive in zip(images, self._drive(images), strict=True):
            found += self._search(drive, z, found)
        if not found:
            return before
        found = self._apart(found)
        shares = torch.tensor([self._zeros(p) for p in found])
        usual = float(shares.median())
        least = usual - spread * (usual * (1 - usual) / len(self.left)) ** 0.5
        old = list(before.T)
        kept = [p for p, share in zip(found, shares.tolist(), strict=True) if share > least or _among(p, old)]
        return torch.stack(kept[: len(self.sizes)], dim=1)

    def _search(self, drive: Tensor, z: Tensor, found: list[Tensor]) -> list[Tensor]:
        """A new column of an image near z (r,), or none: units with the lowest `drive` (m,) are taken for silent."""
        start = self.sizes * (self.right @ z)
        for share in (0.1, 0.2, 0.3):
            quiet = (drive < drive.quantile(share)).double().clamp_min(1e-6)
            p = self._sparsest(start, quiet)
            if self._zeros(p) > SPARSE and not _among(p, found):
                return [p]
        return []

    def _apart(self, found: list[Tensor]) -> list[Tensor]:
        """Columns of two images that excite nearly the same units, c_i - a c_j, parted by a column c_j that was found.

        Where c_i is zero and c_j is not, the ratio of the two is the same number a.
        """
        parted: list[Tensor] = []
        for k, p in enumerate(found):
            share = self._zeros(p)
            for q in (*parted, *found[k + 1 :]):
                candidate = p - _commonest(self._column(p), self._column(q)) * q
                candidate = candidate / candidate.norm()
                if self._zeros(candidate) > share + 5 / len(self.left):
                    p, share = candidate, self._zeros(candidate)
            if not _among(p, parted):
                parted.append(p)
        return parted

    def apply(self, z: Tensor, columns: Tensor) -> tuple[Tensor, list[int]]:
        """Coordinates (N, r) that agree with the columns found, exact where all r are there; images without a column.

        Z Q = 1 for Q = W S^-1 P up to scales: each image has a component along its own column of Q and no other. The
        images whose column is missing span the rows of what the found columns leave of M.
        """
        if columns.shape[1] == 0:
            return self._levelled(z, self.level), list(range(len(z)))
        dual = self.right.T @ (columns / self.sizes[:, None])
        if columns.shape[1] == len(self.sizes) and bool(self.bias.any()):
            scale = torch.linalg.lstsq(self.left @ columns, self.bias[:, None]).solution[:, 0]
            exact = torch.linalg.inv_ex(dual * scale).inverse
            if bool(exact.isfinite().all()):
                return _in_order_of(z, exact), []
        along = z @ dual
        owners = linear_sum_assignment(-(along.abs() / along.norm(dim=0)).T.cpu().numpy())[1].tolist()
        strange = along.clone()
        strange[owners, range(len(owners))] = 0
        cleaned = z - strange @ torch.linalg.pinv(dual)
        rest = sorted(set(range(len(z))) - set(owners))
        left_over = self._left_over(columns)
        cleaned[rest] = self._levelled(cleaned[rest] @ left_over, left_over @ self.level)
        return cleaned, rest

    def _levelled(self, z: Tensor, way: Tensor) -> Tensor:
        """z (N, r) moved along `way` (r,) until z beta = 1."""
        size = way @ self.level
        return z if float(size) <= 0 else z + torch.outer((1 - z @ self.level) / size, way)

    def anew(self, z: Tensor, columns: Tensor, generator: torch.Generator) -> Tensor:
        """Random images (FRESH, r) in the span of those whose column is missing, of the size of the others."""
        left_over = self._left_over(columns)
        random = torch.randn(FRESH, z.shape[1], generator=generator, dtype=z.dtype).to(z) @ left_over
        random = random / random.norm(dim=1, keepdim=True) * z.norm(dim=1).mean()
        return self._levelled(random, left_over @ self.level)

    def _left_over(self, columns: Tensor) -> Tensor:
        """(r, r): the projection on the rows of (1 - P P^+) S W^T, which the images without a column span."""
        kept = torch.eye(len(columns)).to(columns) - columns @ torch.linalg.pinv(columns)
        rows = torch.linalg.svd(kept @ (self.sizes[:, None] * self.right))[2][: len(columns) - columns.shape[1]]
        projection: Tensor = rows.T @ rows
        return projection

    def _drive(self, z: Tensor) -> Tensor:
        """(N, m): the larger pre-activation before and after training; very negative means never excited."""
        x = z @ self.basis.T
        before, after = (x @ weight.T + bias for weight, bias in self.weights)
        return torch.maximum(before, after)

    def _sparsest(self, p: Tensor, weights: Tensor, *, rounds: int = 60) -> Tensor:
        """Iteratively reweighted least squares for min |U p|_0 near p, |p| = 1, with fading smoothing."""
        p, smooth = self._faintest(p, weights, rounds=5), 0.3
        for _ in range(rounds):
            p = self._faintest(p, weights)
            weights = 1 / (self._column(p).square() + smooth**2)
            smooth = max(0.8 * smooth, 1e-4)
        return p

    def _faintest(self, p: Tensor, weights: Tensor, *, rounds: int = 1) -> Tensor:
        """Inverse iteration for the unit vector p with the least sum of weights (U p)^2."""
        system = self.left.T @ (weights[:, None] * self.left)
        for _ in range(rounds):
            p = _solve(system, p)
            p = p / p.norm()
        return p

    def _column(self, p: Tensor) -> Tensor:
        """U p with a root mean square of one."""
        column: Tensor = (self.left @ p) * len(self.left) ** 0.5
        return column

    def _zeros(self, p: Tensor) -> float:
        return float((self._column(p).abs() < 0.01).double().mean())


def _solve(system: Tensor, right: Tensor) -> Tensor:
    """system^-1 right, not finite where the system is singular: a start that leads nowhere is left, not an error."""
    solution: Tensor = torch.linalg.solve_ex(system, right).result
    return solution


def _commonest(one: Tensor, other: Tensor) -> Tensor:
    """The ratio one / other (m,) that occurs most often, to 1 %."""
    there = other.abs() > 0.05
    ratios = (one[there] / other[there]).sort().values
    last = torch.searchsorted(ratios, ratios + 0.01, right=True)
    k = int((last - torch.arange(len(ratios), device=ratios.device)).argmax())
    return ratios[k : int(last[k])].median()


def inside(z: Tensor, before: Tensor, basis: Tensor, known: Known) -> Tensor:
    """z (N, r), but the images `before` where the new ones leave the box of pixel values further."""

    def beyond(z: Tensor) -> Tensor:
        x = (z @ basis.T).view(-1, *known.shape)
        low, high = known.normalisation.box(x)
        return ((torch.relu(low - x) + torch.relu(x - high)) / (high - low)).square().flatten(1).mean(1)

    allowed = beyond(before).clamp_min(BEYOND**2)
    return torch.where((beyond(z) <= allowed)[:, None], z, before)


def _among(p: Tensor, found: list[Tensor]) -> bool:
    """Whether a unit vector is one of those found, up to its sign."""
    return any(abs(float(p @ other)) > 0.99 for other in found)


def _in_order_of(z: Tensor, found: Tensor) -> Tensor:
    """The rows of `found` (r, r) nearest to those of z (N, r), each at least once: an image may be there twice."""
    rows, columns = linear_sum_assignment(torch.cdist(z, found).cpu().numpy())
    nearest = found[torch.cdist(z, found).argmin(1)]
    nearest[rows] = found[columns]
    return nearest
