"""Pools: shapes that fit, twins that leave, and what is drawn beside a simulated client."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from leakscope.data import draw_client
from leakscope.data.clients import contents
from leakscope.data.dataset import Dataset
from leakscope.data.others import draw_others
from leakscope.errors import InputError
from leakscope.lineup.pool import Pool, Suspects, draw_pool, without_twins
from leakscope.types import stream
from made_data import noisy


def images(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 1, 6, 6, generator=stream(seed, "pool"))


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Pool(
            Suspects(images(2)), Suspects(images(3)[:, :, :5], torch.zeros(2)), own_site=torch.ones(4, dtype=torch.bool)
        )
    assert [problem.found.split()[0] for problem in caught.value.problems] == ["others", "there", "own_site"]


def test_copies_and_look_alikes_leave() -> None:
    members, others = images(4), images(5, 1)
    alike = (0.5 + 0.4 * (members[:1] - 0.5)).clamp(0, 1)
    pool = Pool(
        Suspects(torch.cat([members, members[1:2]]), torch.arange(5)),
        Suspects(torch.cat([others, alike, others[:1]])),
        Suspects(torch.cat([members[:1], images(3, 2)])),
        own_site=torch.tensor([True, False, True, False, True, True, True]),
    )
    kept, left = without_twins(pool)
    assert torch.equal(kept.members.images, members)
    assert kept.members.labels is not None
    assert kept.members.labels.tolist() == [0, 1, 2, 3]
    assert torch.equal(kept.others.images, others)
    assert kept.own_site is not None
    assert kept.own_site.tolist() == [True, False, True, False, True]
    assert kept.references is not None
    assert (len(kept.references), left) == (3, 4)


def dataset(n: int = 400, *, writers: int = 0) -> Dataset:
    return noisy(n, classes=5, writers=np.arange(n) % writers if writers else None)


@pytest.mark.parametrize("seed", range(5))
def test_others_share_the_labels_and_nothing_else(seed: int) -> None:
    data = dataset()
    client, other = (draw_client(data, n=20, seed=seed + k) for k in (0, 100))
    drawn = draw_others(data, client, seed=seed, each=3, references=100, avoid=[other.images])
    wanted = Counter({label: 3 * count for label, count in Counter(client.labels.tolist()).items()})
    assert Counter(data.labels[drawn.others].tolist()) == wanted
    assert drawn.own_site is None
    assert not set(drawn.others) & set(drawn.references)
    chosen = {data.images[place].tobytes() for place in (*drawn.others, *drawn.references)}
    assert len(chosen) == len(drawn.others) + 100
    assert not chosen & {*contents(client.images), *contents(other.images)}


def test_others_of_the_own_writer_come_first() -> None:
    data = dataset(writers=8)
    client = draw_client(data, n=20, seed=0)
    assert data.writers is not None
    drawn = draw_others(data, client, seed=0, each=1)
    assert drawn.own_site is not None
    assert {str(writer) for writer in data.writers[drawn.others[drawn.own_site]]} == {client.writer}
    assert client.writer not in {str(writer) for writer in data.writers[drawn.others[~drawn.own_site]]}


def test_a_class_that_runs_out_gives_what_it_has() -> None:
    data = dataset(60)
    client = draw_client(data, n=20, seed=0)
    drawn = draw_others(data, client, seed=0, each=50)
    assert len(drawn.others) == 40
    assert len(drawn.references) == 0


def test_pool_of_a_client() -> None:
    data = dataset(writers=8)
    client = draw_client(data, n=20, seed=0)
    pool = draw_pool(data, client, seed=0, each=1, references=30)
    drawn = draw_others(data, client, seed=0, each=1, references=30)
    assert pool.members.images is client.images
    assert pool.others.labels is not None
    assert pool.others.labels.tolist() == data.labels[drawn.others].tolist()
    assert set(contents(pool.others.images)) == {data.images[place].tobytes() for place in drawn.others}
    assert pool.own_site is not None
    assert pool.own_site.tolist() == (drawn.own_site.tolist() if drawn.own_site is not None else None)
