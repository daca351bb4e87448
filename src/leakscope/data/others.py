"""Images of a data set that stand beside a client's own in a line-up: same source, same labels, not the client's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakscope.data.clients import Indices, contents
from leakscope.data.dataset import Array, Dataset
from leakscope.types import ClientBatch, stream

EACH = 3
"""Other images of a class for each of the client's images in it, as far as there are any."""
REFERENCES = 300


@dataclass(frozen=True)
class Others:
    """Places in a data set, all of different content."""

    others: Indices
    """Labelled as the client's images are."""
    own_site: NDArray[np.bool_] | None
    """Which of the others come from the writers that the client's images are of; None where there are no writers."""
    references: Indices
    """Of the client's labels first, then of any."""


def draw_others(
    dataset: Dataset,
    client: ClientBatch,
    *,
    seed: int,
    each: int = EACH,
    references: int = REFERENCES,
    avoid: Sequence[Tensor] = (),
) -> Others:
    """Others and references for a client, by content disjoint from its images, from `avoid`, and from each other.

    avoid: images (n, C, H, W) in [0, 1] that must not occur, e.g. those of other audited clients. Where images have
    writers, as many others are drawn from the client's own writers as from the rest: so membership is told from hand.
    """
    private = set(contents(client.images))
    taken = private.union(*map(contents, avoid))
    order = torch.randperm(len(dataset), generator=stream(seed, "line-up")).tolist()
    free = [place for place in order if _new(dataset.images[place], taken)]
    wanted = Counter(client.labels.tolist())
    if dataset.writers is None:
        others, own_site = _matched(dataset, free, wanted, each), None
    else:
        mine = _writers(dataset, private)
        here, there = ([p for p in free if (dataset.writers[p] in mine) is inside] for inside in (True, False))
        own, rest = (_matched(dataset, places, wanted, each) for places in (here, there))
        others, own_site = own + rest, np.arange(len(own) + len(rest)) < len(own)
    left = [place for place in free if place not in set(others)]
    left.sort(key=lambda place: int(dataset.labels[place]) not in wanted)
    return Others(np.array(others, dtype=np.int64), own_site, np.array(left[:references], dtype=np.int64))


def _new(image: Array, taken: set[bytes]) -> bool:
    content = image.tobytes()
    if content in taken:
        return False
    taken.add(content)
    return True


def _matched(dataset: Dataset, places: Sequence[int], wanted: Counter[int], each: int) -> list[int]:
    """The first `each` places of a class for each image wanted of it."""
    left = Counter({label: each * count for label, count in wanted.items()})
    found = []
    for place in places:
        label = int(dataset.labels[place])
        if left[label] > 0:
            left[label] -= 1
            found.append(place)
    return found


def _writers(dataset: Dataset, private: set[bytes]) -> set[object]:
    assert dataset.writers is not None
    return {dataset.writers[place] for place, image in enumerate(dataset.images) if image.tobytes() in private}
