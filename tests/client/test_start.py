"""Weights that were trained on other images: never the client's own, nor those reserved for its line-up."""

from __future__ import annotations

import pytest
import torch

from leakscope.client.start import Pretrain, others, pretrain, reserved
from leakscope.data import draw_client
from leakscope.data.clients import contents, to_unit
from leakscope.data.others import draw_others
from leakscope.errors import InputError
from leakscope.victims import build_victim
from made_data import noisy


def test_pretraining_sees_neither_the_client_nor_what_is_reserved() -> None:
    data = noisy(200, classes=5)
    client = draw_client(data, n=20, seed=0)
    kept = to_unit(data.images[draw_others(data, client, seed=0, each=2, references=0).others])
    images, labels = others(data, client, also=kept)
    assert len(images) == len(labels) == 200 - 20 - 40
    assert not set(contents(images)) & {*contents(client.images), *contents(kept)}


def test_reserving_nothing_changes_nothing() -> None:
    data = noisy(200, classes=5)
    client = draw_client(data, n=20, seed=0)
    victim = build_victim("mlp", shape=data.shape, classes=5)
    plain, none, some = (
        pretrain(settings, victim, data, avoid=client, seed=0)
        for settings in (Pretrain(), Pretrain(reserve=0), Pretrain(reserve=2))
    )
    assert all(torch.equal(plain[name], none[name]) for name in plain)
    assert not all(torch.equal(plain[name], some[name]) for name in plain)


@pytest.mark.parametrize(
    ("choice", "count"), [("fresh", None), ("pretrain:epochs=3", 0), ("pretrain:epochs=3,reserve=3", 3)]
)
def test_how_many_are_reserved(choice: str, count: int | None) -> None:
    assert reserved(choice) == count


def test_a_negative_reserve_is_refused() -> None:
    with pytest.raises(InputError, match="reserve=-1 is not at least 0"):
        Pretrain(reserve=-1)
