"""The matching is chosen from the update alone."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leakscope.attacks.known import Known
from leakscope.attacks.matching import Cosine, Layerwise, Masked
from leakscope.attacks.recipes import nl_sme, sme
from leakscope.attacks.reliability import Reliability, denoise, noise_level
from leakscope.attacks.surrogate import Bezier, Linear
from leakscope.client.own import LocalClient
from leakscope.client.training import train
from leakscope.observation.firewall import observe
from leakscope.types import Knowledge, LocalTraining
from scenes import tiny_client, tiny_observation


@pytest.fixture
def known() -> Known:
    return Known.of(tiny_observation(tiny_client(n=4, epochs=4)), torch.device("cpu"))


def noisy(known: Known, sigma: float) -> Known:
    noise = torch.randn(known.delta.shape, generator=torch.Generator().manual_seed(0))
    return replace(known, delta=known.delta + sigma * noise)


def sparse(known: Known) -> Known:
    keep = known.delta.abs() > known.delta.abs().quantile(0.9)
    return replace(known, delta=torch.where(keep, known.delta, 0))


def test_a_clean_update_is_matched_globally(known):
    attack, same, notes = Reliability()(sme(), known)
    assert isinstance(attack.matching, Cosine)
    assert same is known
    assert notes["matching"]["chosen"] == "global"


def test_clipping_changes_nothing(known):
    clipped = replace(known, delta=0.01 * known.delta)
    assert Reliability()(sme(), clipped)[2]["matching"]["chosen"] == "global"
    g = torch.randn_like(known.delta)
    assert float(Cosine().distance(g, clipped)) == pytest.approx(float(Cosine().distance(g, known)), abs=1e-6)


def test_zeros_are_masked_and_do_not_count(known):
    attack, adapted, notes = Reliability()(nl_sme(), sparse(known))
    assert isinstance(attack.matching, Masked)
    assert "exact zeros" in notes["matching"]["why"]
    g = known.delta + torch.where(adapted.delta == 0, 5.0, 0.0)
    assert float(attack.matching.distance(g, adapted)) == pytest.approx(0, abs=1e-5)
    assert list(attack.matching.variables(adapted)) == ["d"]


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_noise_is_measured_without_being_told(known, share):
    sigma = share * float(known.delta.square().mean().sqrt())
    assert noise_level(noisy(known, sigma)) == pytest.approx(sigma, rel=0.1)
    assert noise_level(known) < 0.02 * sigma


def test_noisy_layers_count_less_and_strong_noise_takes_the_straight_line(known):
    size = float(known.delta.square().mean().sqrt())
    attack, _, notes = Reliability()(nl_sme(), noisy(known, 0.5 * size))
    assert isinstance(attack.matching, Layerwise)
    assert isinstance(attack.surrogate, Bezier)
    alpha = dict(zip(known.sizes, attack.matching.alpha.tolist(), strict=True))
    assert all(0 <= value <= 1 for value in alpha.values())
    assert alpha["9.bias"] > alpha["7.weight"]
    hidden, _, notes = Reliability()(nl_sme(), noisy(known, 3 * size))
    assert type(hidden.surrogate) is Linear
    assert "noise" in notes["matching"]["surrogate"]


def test_denoising_comes_closer_to_the_clean_matrix():
    generator = torch.Generator().manual_seed(0)
    clean = torch.randn(100, 5, generator=generator) @ torch.randn(5, 300, generator=generator)
    dirty = clean + 2 * torch.randn(clean.shape, generator=generator)
    assert (denoise(dirty, 2.0) - clean).norm() < 0.5 * (dirty - clean).norm()
    torch.testing.assert_close(denoise(dirty.T, 2.0), denoise(dirty, 2.0).T)
    assert torch.equal(denoise(dirty, 0.0), dirty)


def test_a_choice_by_hand_is_taken(known):
    assert isinstance(Reliability(mode="mask")(sme(), known)[0].matching, Masked)
    assert isinstance(Reliability(mode="layerwise")(sme(), known)[0].matching, Layerwise)


def narrow() -> Known:
    """A clean update of a net whose layers are all too narrow for their rank to tell noise."""

    def net() -> nn.Module:
        front = (nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 3, stride=3), nn.ReLU())
        return nn.Sequential(*front, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8))

    draw = torch.Generator().manual_seed(0)
    images = torch.rand(20, 1, 12, 12, generator=draw) ** 4
    training = LocalTraining(epochs=5, batch_size=5, lr=0.05)
    mine = LocalClient(model=net, images=images, labels=torch.arange(20) % 8, classes=8, training=training).client(0)
    seen = observe(
        train(mine, mine.victim.weights()),
        mine.victim,
        knowledge=Knowledge(),
        normalisation=mine.batch.normalisation,
        labels=mine.batch.labels,
    )
    return Known.of(seen, torch.device("cpu"))


def test_a_clean_update_of_a_narrow_net_is_not_taken_for_a_noisy_one():
    known = narrow()
    size = float(known.delta.square().mean().sqrt())
    assert noise_level(known) < 1e-3 * size
    assert Reliability()(sme(), known)[2]["matching"]["chosen"] == "global"
    assert noise_level(noisy(known, size)) == pytest.approx(size, rel=0.35)
