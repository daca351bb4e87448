"""Who stands in a line-up: images that were trained on, others of the same kind, and references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.data import Dataset
from leakscope.data.clients import to_unit
from leakscope.data.others import EACH, REFERENCES, draw_others
from leakscope.errors import Problem, refuse
from leakscope.types import ClientBatch

TWINS = 0.95
"""Correlation with an image that was trained on, from which on another image is too much like it to be told apart."""
COPIES = 0.9999
"""Correlation from which on two images are one."""


@dataclass(frozen=True)
class Suspects:
    """Images with or without their labels."""

    images: Tensor
    """(n, C, H, W) in [0, 1]."""
    labels: Tensor | None = None
    """(n,) classes or (n, classes) probabilities; None: each takes the one of the client's labels that fits it best."""

    def __len__(self) -> int:
        return len(self.images)

    def where(self, keep: Tensor) -> Suspects:
        """Some of them."""
        return Suspects(self.images[keep], None if self.labels is None else self.labels[keep])


@dataclass(frozen=True)
class Pool:
    """The images of a line-up; what the server is shown, and in `members` what it is to find out."""

    members: Suspects
    """Images that the client trained on."""
    others: Suspects
    """Images of the same source and label distribution that nothing was trained on."""
    references: Suspects | None = None
    """Images that the client is known not to hold; they may be public ones."""
    own_site: Tensor | None = None
    """(k,) bool: which others come from the client's own writers or site; None where nothing is known of sites."""

    def __post_init__(self) -> None:
        shape, found = self.members.images.shape[1:], []
        parts = {"members": self.members, "others": self.others, "references": self.references}
        for name, part in parts.items():
            if part is None:
                continue
            if part.images.shape[1:] != shape:
                found.append(
                    Problem(f"{name} are {tuple(part.images.shape)}, members {tuple(self.members.images.shape)}")
                )
            if part.labels is not None and len(part.labels) != len(part):
                found.append(Problem(f"there are {len(part.labels)} labels for {len(part)} {name}"))
        if self.own_site is not None and len(self.own_site) != len(self.others):
            found.append(Problem(f"own_site tells of {len(self.own_site)} images, there are {len(self.others)} others"))
        refuse(found)


def without_twins(pool: Pool) -> tuple[Pool, int]:
    """The pool without copies, and without others and references that look like a member; and how many left.

    Two copies explain each other's share of the update, so neither would be recognised.
    """
    shape = [_standardised(part.images) for part in (pool.members, pool.others)]
    own = _first_ones(shape[0])
    members = shape[0][own]
    kept = _unlike(shape[1], members) & _first_ones(shape[1])
    left = int((~own).sum() + (~kept).sum())
    references = pool.references
    if references is not None and len(references):
        free = _unlike(_standardised(references.images), members)
        references, left = references.where(free), left + int((~free).sum())
    site = None if pool.own_site is None else pool.own_site[kept]
    return replace(
        pool, members=pool.members.where(own), others=pool.others.where(kept), references=references, own_site=site
    ), left


def draw_pool(
    dataset: Dataset,
    client: ClientBatch,
    *,
    seed: int,
    each: int = EACH,
    references: int = REFERENCES,
    avoid: Sequence[Tensor] = (),
) -> Pool:
    """The line-up of a simulated client: its images, and others of its data set (leakscope.data.others)."""
    drawn = draw_others(dataset, client, seed=seed, each=each, references=references, avoid=avoid)
    others, more = (
        Suspects(to_unit(dataset.images[places]), torch.from_numpy(dataset.labels[places]))
        for places in (drawn.others, drawn.references)
    )
    site = None if drawn.own_site is None else torch.from_numpy(drawn.own_site)
    return Pool(Suspects(client.images, client.labels), others, more, site)


def _standardised(images: Tensor) -> Tensor:
    """(n, C, H, W) -> (n, C H W) of mean 0 and length 1: products are correlations."""
    flat = images.flatten(1).double()
    return functional.normalize(flat - flat.mean(1, keepdim=True))


def _first_ones(images: Tensor) -> Tensor:
    """(n,) bool: not a copy of an earlier image."""
    return ~((images @ images.T).tril(-1) > COPIES).any(1)


def _unlike(images: Tensor, members: Tensor) -> Tensor:
    """(n,) bool: like no member."""
    return ~(images @ members.T > TWINS).any(1)
