"""The private features as extreme rays of a cone.

The update of a fully connected layer is dW = C Z V^T, up to the drift of features while the client trains: V (F, N)
spans its row space, and row i of Z V^T is the feature vector of image i. Behind a ReLU no feature is negative and many
are zero, so the coordinates z_i lie in the cone {q: V q >= 0}, each on an edge of it: more entries of V z_i are zero
than it takes to fix a direction. The update of the bias, C 1, fixes the scale: beta z_i = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor

from leakscope.types import stream

SLACKS = (0.01, 0.05)
"""How far below zero features may lie in a linear programme, as a part of their root mean square: first, then."""
FIRST, MORE = 10, 2
"""Inequalities per dimension that a linear programme begins with, and that join it where they are violated."""
CUTS = 40
"""How often they may join."""
PIVOTS = 50
"""Per dimension and linear programme: a limit on work and not on time, so that runs can be repeated."""
FAR = 100.0
"""Length of a feature vector, in multiples of the usual one, at which a direction counts as unbounded."""
ROUNDS, WIDEST, NARROWEST = 25, 0.05, 0.008
"""Refinement: what counts as zero, as a part of the root mean square, shrinks from round to round."""
ZERO = 0.01
SPARSE = (0.7, 0.5)
"""Zeros that a feature vector must have, as a part of what those found have in the median: first, and once half of the
patience is gone."""
NEGATIVE = 0.02
"""How long the negative part of a feature vector may be, as a part of the whole."""
ALIKE = 0.995
"""Cosine of two feature vectors from which on they are taken for one."""
MIXED, LOW, THERE, PARTNERS = 0.1, 0.1, 0.2, 3
"""What a mixture has of another vector is at least this much, by this quantile of their ratio where that one is larger
than this part of its root mean square; so many of the likeliest are tried."""
PATIENCE = 12
"""Attempts in a row without a new feature vector after which the search ends."""


@dataclass(frozen=True)
class Cone:
    """{q: V q >= 0, beta q = 1}."""

    basis: Tensor
    """V (F, N), orthonormal, double."""
    level: Tensor
    """beta (N,)."""
    zeros: float
    """Share of zeros that the features of images have, roughly."""
    scale: float
    """Their root mean square, roughly."""

    @classmethod
    def of(cls, dW: Tensor, db: Tensor, basis: Tensor, *, zeros: float, scale: float) -> Cone:
        """The cone in the row space `basis` (F, N) of a layer's update dW (m, F), db (m,)."""
        mixed, bias = dW.cpu().double() @ basis, db.cpu().double()
        level = torch.linalg.lstsq(mixed, bias[:, None], driver="gelsd").solution[:, 0]
        return cls(basis, level, zeros, scale)

    def features(self, rays: Tensor) -> Tensor:
        """(k, N) coordinates -> (k, F) features, none of them negative."""
        return (rays @ self.basis.T).clamp_min(0)

    def vertex(self, towards: Tensor, slack: float) -> Tensor | None:
        """The q (N,) with the largest q . towards and no feature below -slack; None where there is none.

        Few of the F inequalities matter: each programme has some of them, and what it violates joins the next one.
        """
        rows, (count, n) = self._first_rows(), self.basis.shape
        lowest, basis = slack * self.scale, self.basis.numpy()
        far = FAR * self.scale * count**0.5
        for _ in range(CUTS):
            found = linprog(
                -towards.numpy(),
                A_ub=-basis[rows],
                b_ub=np.full(len(rows), lowest),
                A_eq=self.level[None].numpy(),
                b_eq=[1.0],
                bounds=(-far, far),
                method="highs-ds",
                options={"maxiter": PIVOTS * n},
            )
            if found.status != 0:
                return None
            a = basis @ found.x
            violated = np.flatnonzero(a < -lowest * (1 + 1e-6))
            if not len(violated):
                return torch.from_numpy(found.x)
            rows = np.union1d(rows, violated[np.argsort(a[violated], kind="stable")[: MORE * n]])
        return None

    def _first_rows(self) -> NDArray[np.int64]:
        count, n = self.basis.shape
        return np.sort(torch.randperm(count, generator=stream(0, "first rows"))[: FIRST * n].numpy())

    def refined(self, q: Tensor) -> Tensor | None:
        """The edge of the cone next to q (N,): where the features that are nearly zero are smallest."""
        for eps in np.geomspace(WIDEST, NARROWEST, ROUNDS):
            a = self.basis @ q
            silent = self.basis[a.abs() < eps * a.square().mean().sqrt()]
            if len(silent) < len(q) - 1:
                return None
            q = torch.linalg.eigh(silent.T @ silent).eigenvectors[:, 0]
            q = q / (q @ self.level)
        return q

    def sparsity(self, rays: Tensor) -> Tensor:
        """(k, N) -> (k,): the share of features that are zero."""
        a = rays @ self.basis.T
        return (a.abs() < ZERO * a.square().mean(1, keepdim=True).sqrt()).double().mean(1)

    def accepts(self, q: Tensor, found: Tensor, sparse: float) -> bool:
        """Whether q (N,) looks like the features of an image, and of none of those `found` (k, N)."""
        usual = float(self.sparsity(found).median()) if len(found) else self.zeros
        return self.plausible(q, sparse * usual) and not among(q, found)

    def parted(self, q: Tensor, found: Tensor) -> Tensor:
        """q (N,) without the one of `found` (k, N) that it is a mixture with, or as it is.

        On a face between two edges drift hides where the face ends, and a vertex there may be p + a r. Where p is
        zero and r is not, the ratio of the two is the same number a, and no smaller one occurs.
        """
        a, others = self.basis @ q, found @ self.basis.T
        shares = torch.stack([_least_ratio(a, other) for other in others]) if len(found) else torch.zeros(0)
        for i in shares.argsort(descending=True)[:PARTNERS].tolist():
            p = self.refined(q - shares[i] * found[i]) if float(shares[i]) > MIXED else None
            if p is not None and self.plausible(p, SPARSE[1] * float(self.sparsity(q[None]))):
                return q if among(p, q[None]) else p
        return q

    def plausible(self, q: Tensor, zeros: float) -> bool:
        """Whether hardly any feature of q (N,) is negative and this share of them is zero."""
        a = self.basis @ q
        negative = float(a.clamp_max(0).square().sum() / a.square().sum())
        return negative <= NEGATIVE**2 and float(self.sparsity(q[None])) >= zeros


def among(q: Tensor, found: Tensor) -> bool:
    """Whether q (N,) is one of those found (k, N)."""
    return bool((torch.cosine_similarity(q[None], found) >= ALIKE).any())


def _least_ratio(one: Tensor, other: Tensor) -> Tensor:
    """A low quantile of one / other (F,), where the other is there."""
    there = other > THERE * other.square().mean().sqrt()
    return torch.quantile(one[there] / other[there], LOW)


@dataclass(frozen=True)
class Search:
    """How far the search for the N features has come."""

    found: Tensor
    """(k, N): coordinates of the feature vectors."""
    attempts: int = 0
    failures: int = 0
    """The last attempts in a row that brought nothing."""

    @property
    def over(self) -> bool:
        return len(self.found) == self.found.shape[1] or self.failures == PATIENCE

    def further(self, cone: Cone, seed: int) -> Search:
        """After one more attempt: the vertex in a random direction, refined, where it is a new feature vector."""
        towards, sparse = self._direction(seed), SPARSE[2 * self.failures >= PATIENCE]
        for slack in SLACKS:
            q = cone.vertex(towards, slack)
            q = None if q is None else cone.refined(q)
            q = None if q is None else cone.parted(q, self.found)
            if q is not None and cone.accepts(q, self.found, sparse):
                return Search(self._with(cone, q), self.attempts + 1)
        return Search(self.found, self.attempts + 1, self.failures + 1)

    def _with(self, cone: Cone, q: Tensor) -> Tensor:
        """(k + 1, N): those found and q, which may be what one of them was a mixture with."""
        parted = [cone.parted(old, q[None]) for old in self.found]
        kept = q[None]
        for old, new in zip(self.found, parted, strict=True):
            kept = torch.cat([kept, (old if among(new, kept) else new)[None]])
        return torch.roll(kept, -1, 0)

    def _direction(self, seed: int) -> Tensor:
        """(N,): orthogonal to all that was found, so that the vertex is new; after a failure, every second freer."""
        g = torch.randn(self.found.shape[1], generator=stream(seed, f"direction {self.attempts}"), dtype=torch.float64)
        if len(self.found):
            q = torch.linalg.qr(self.found.T).Q
            free = self.failures / PATIENCE if self.failures % 2 else 0.0
            g = g - (1 - free) * q @ (q.T @ g)
        unit: Tensor = g / g.norm()
        return unit
