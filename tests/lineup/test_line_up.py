"""Line-ups of small real clients: who is recognised, what changes nothing, and what is said where nothing shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from leakscope.client.training import Client
from leakscope.defenses import parse_defense
from leakscope.lineup import Pool, Suspects, line_up, pooled
from leakscope.lineup.line_up import client_labels, visible
from leakscope.observation.firewall import Observation, observe
from leakscope.types import ClientBatch, Knowledge, LocalTraining, Normalisation, stream
from leakscope.victims import Victim, build_victim
from small import CLASSES, SIDE

K = 120


def pictures(n: int, seed: int) -> Suspects:
    coarse = torch.rand(n, 1, 6, 6, generator=stream(seed, "pictures"))
    images = functional.interpolate(coarse, size=SIDE, mode="bilinear", align_corners=False)
    return Suspects(images, torch.arange(n) % CLASSES)


def scene(
    n: int = 10,
    *,
    defense: str = "none",
    victim: Victim | None = None,
    labels: bool = True,
    seed: int = 0,
    **training: object,
) -> tuple[Observation, Pool]:
    private = pictures(n, seed)
    assert private.labels is not None
    batch = ClientBatch(private.images, private.labels, CLASSES, Normalisation((0.5,), (0.25,)), "made")
    victim = victim or build_victim("cnn-mnist", shape=(1, SIDE, SIDE), classes=CLASSES)
    settings = LocalTraining(**{"epochs": 4, "batch_size": 5, "lr": 0.02, **training})  # type: ignore[arg-type]
    client = Client(victim, batch, settings, seed)
    update = parse_defense(defense).train(client, victim.weights(), seed=seed)
    seen = observe(update, victim, knowledge=Knowledge(), normalisation=batch.normalisation, labels=batch.labels)
    pool = Pool(private, pictures(K, 100 + seed), pictures(40, 200 + seed))
    if not labels:
        pool = replace(pool, members=Suspects(private.images), others=Suspects(pool.others.images))
    return seen, pool


def test_the_one_image_of_a_single_step_has_the_top_score() -> None:
    seen, pool = scene(1, epochs=1, batch_size=1)
    found = line_up(seen, pool)
    assert found.members.min() > found.others.max()
    assert found.membership.auc == 1
    assert found.membership.tpr1 == 1


def test_images_that_were_trained_on_are_recognised() -> None:
    seen, pool = scene()
    found = line_up(seen, pool)
    assert found.membership.auc == 1
    assert (found.references, found.labels) == (40, "given")


def test_clipping_does_not_hide_who_was_trained_on() -> None:
    assert line_up(*scene(defense="clip:bound=0.001")).membership.auc == 1


def test_suppressed_coordinates_do_not_count() -> None:
    seen, pool = scene(defense="sparsify:rate=0.9")
    assert {name: int(mask.sum()) for name, mask in visible(seen.delta).items()} == {
        name: int(value.count_nonzero()) for name, value in seen.delta.items()
    }
    assert not visible(scene()[0].delta)
    assert line_up(seen, pool).membership.auc == 1


def test_scores_do_not_know_who_is_a_member() -> None:
    seen, pool = scene(defense="gaussian:std=0.5")
    found = line_up(seen, pool)
    assert pool.members.labels is not None
    assert pool.others.labels is not None
    swapped = Pool(pool.others, pool.members, pool.references)
    turned = line_up(seen, swapped)
    torch.testing.assert_close(turned.others, found.members)
    torch.testing.assert_close(turned.members, found.others)


def test_noise_that_drowns_the_update_leaves_chance() -> None:
    line_ups = [line_up(*scene(defense="gaussian:std=1000", seed=seed)) for seed in range(6)]
    membership, hand = pooled(line_ups)
    assert membership.members == 60
    low, high = membership.intervals["auc"]
    assert low < 0.5 < high < 0.65
    assert hand is None


def test_labels_that_nobody_gave_are_found() -> None:
    seen, pool = scene(labels=False)
    found = line_up(seen, pool)
    assert found.labels != "given"
    assert found.membership.auc is not None
    assert found.membership.auc > 0.9


def test_labels_of_the_client_are_counted_where_they_are_not_granted() -> None:
    seen, _ = scene()
    assert client_labels(seen).tolist() == list(range(CLASSES))
    hidden = replace(seen, labels=None)
    assert set(client_labels(hidden).tolist()) <= set(range(CLASSES))
    assert client_labels(replace(hidden, training=replace(seen.training, optimizer="adam"))).tolist() == list(
        range(CLASSES)
    )


def test_batch_norm_in_train_mode() -> None:
    def net() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(200, CLASSES),
        )

    torch.manual_seed(0)
    victim = Victim("norm", net().eval(), (1, SIDE, SIDE), CLASSES)
    before = {name: value.clone() for name, value in victim.module.state_dict().items()}
    seen, pool = scene(victim=victim, mode="train")
    found = line_up(seen, pool)
    assert found.membership.auc is not None
    assert found.membership.auc > 0.9
    assert all(torch.equal(value, before[name]) for name, value in victim.module.state_dict().items())


def test_hand_stands_beside_membership() -> None:
    seen, pool = scene()
    here = torch.arange(K) < 60
    found = line_up(seen, replace(pool, own_site=here))
    assert found.hand is not None
    assert (found.membership.others, found.hand.members, found.hand.others) == (60, 60, 60)
    membership, hand = pooled([found, found])
    assert (membership.others, hand and hand.others) == (120, 120)


def test_several_rounds_count_together() -> None:
    seen, pool = scene(defense="gaussian:std=2")
    other, _ = scene(defense="gaussian:std=2", lr=0.03)
    both = line_up(replace(seen, more=(other,)), pool)
    one, two = line_up(seen, pool), line_up(other, pool)
    torch.testing.assert_close(both.members, (one.members + two.members) / 2)
    assert len(both.rounds) == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_update_that_is_no_number_is_not_measured(bad: float) -> None:
    seen, pool = scene()
    broken = replace(seen, delta={name: torch.full_like(value, bad) for name, value in seen.delta.items()})
    found = line_up(broken, pool)
    assert found.membership.auc is None
    assert "not finite" in found.membership.missing["auc"]


def test_an_update_of_zeros_shows_nothing() -> None:
    seen, pool = scene()
    found = line_up(replace(seen, delta={name: 0 * value for name, value in seen.delta.items()}), pool)
    assert found.membership.auc == 0.5
