"""DP-SGD against per-sample gradients and privacy formulas of our own."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from scipy import optimize, stats
from torch import Tensor, nn
from torch.nn import functional

from leakscope.client.training import Client, train
from leakscope.defenses import DPSGD, parse_defense
from leakscope.defenses.accounting import epsilon_of
from leakscope.defenses.dpsgd import poisson_batches
from leakscope.errors import InputError
from leakscope.types import LocalTraining, Weights
from leakscope.victims import Victim
from small import small_client

pytest.importorskip("opacus", reason="Opacus is not installed (extra `dp`)")


def own_samples(client: Client, weights: Weights, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Per-sample gradients by torch.func: (B, *shape)."""

    def loss(w: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        return functional.cross_entropy(client.victim.call(w, {}, image[None]), label[None])

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(dict(weights), x, y)


@pytest.mark.parametrize(("epsilon", "sigma"), [(1e5, 4.8e-5), (1e4, 4.8e-4), (1e3, 4.8e-3), (1e2, 0.048), (10, 0.48)])
def test_the_noise_multiplier_is_the_papers(epsilon: float, sigma: float) -> None:
    assert DPSGD(epsilon=epsilon).noise_multiplier == pytest.approx(sigma, rel=2e-3)


@pytest.mark.parametrize("model", ["cnn-mnist", "mlp", "vit"])
@pytest.mark.parametrize("clip", [0.05, 0.5, math.inf])
def test_a_step_is_the_clipped_sum_of_our_own_per_sample_gradients(model: str, clip: float) -> None:
    client = small_client(model=model, n=4)
    weights = client.victim.weights()
    x, y = client.batch.normalisation.apply(client.batch.images), client.batch.labels
    found = DPSGD(sigma=0, clip=clip).gradients(client, seed=0)(client.victim, weights, {}, x, y)
    samples = own_samples(client, weights, x, y)
    norms = torch.stack([value.flatten(1).square().sum(1) for value in samples.values()]).sum(0).sqrt()
    for name, value in samples.items():
        scale = torch.clamp(clip / norms, max=1).view(-1, *[1] * (value.ndim - 1))
        assert torch.allclose(found[name], (value * scale).mean(dim=0), rtol=1e-4, atol=1e-7), name
    length = math.sqrt(sum(float(value.square().sum()) for value in found.values()))
    assert length <= clip * (1 + 1e-5)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam"}, {"batch_size": 4}])
def test_without_noise_and_bound_it_is_plain_sgd(options: dict[str, object]) -> None:
    client = small_client(epochs=3, **options)
    w0 = client.victim.weights()
    private = parse_defense("dpsgd:sigma=0,clip=inf").train(client, w0, seed=9)
    plain = train(client, w0)
    for name, value in plain.delta.items():
        assert torch.allclose(private.delta[name], value, rtol=1e-3, atol=2e-7), name


def test_the_noise_is_added_to_the_sum_and_divided_by_the_batch() -> None:
    client = small_client(n=6)
    weights = client.victim.weights()
    x, y = client.batch.normalisation.apply(client.batch.images), client.batch.labels
    quiet = DPSGD(sigma=0, clip=0.5).gradients(client, seed=0)(client.victim, weights, {}, x, y)
    noisy = DPSGD(sigma=2, clip=0.5).gradients(client, seed=0)(client.victim, weights, {}, x, y)
    noise = torch.cat([(noisy[name] - quiet[name]).flatten() for name in weights])
    expected = 2 * 0.5 / 6
    assert float(noise.std()) == pytest.approx(expected, rel=5 / math.sqrt(2 * noise.numel()))
    assert abs(float(noise.mean())) < 5 * expected / math.sqrt(noise.numel())


def test_the_noise_goes_on_from_step_to_step_and_follows_the_seed() -> None:
    client = small_client()
    w0 = client.victim.weights()
    first, again, other = (DPSGD(sigma=1).gradients(client, seed=seed) for seed in (1, 1, 2))
    x, y = client.batch.normalisation.apply(client.batch.images), client.batch.labels
    a1, a2 = (first(client.victim, w0, {}, x, y)["9.bias"] for _ in range(2))
    b1 = again(client.victim, w0, {}, x, y)["9.bias"]
    assert torch.equal(a1, b1)
    assert not torch.equal(a1, a2)
    assert not torch.equal(a1, other(client.victim, w0, {}, x, y)["9.bias"])


def test_dropout_stays_off_in_an_eval_client() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.Dropout(0.9), nn.Linear(8, 5)).eval()
    plain = small_client()
    client = Client(Victim("dropout", module, (1, 12, 12), 5), plain.batch, plain.training)
    w0 = client.victim.weights()
    private = parse_defense("dpsgd:sigma=0,clip=inf").train(client, w0, seed=0)
    assert torch.allclose(private.delta["3.weight"], train(client, w0).delta["3.weight"], atol=1e-7)


def test_poisson_batches_vary_and_hold_each_sample_at_its_rate() -> None:
    training = LocalTraining(epochs=400, batch_size=10)
    chosen = list(poisson_batches(50, training, seed=0))
    assert len(chosen) == training.steps(50)
    sizes = torch.tensor([float(len(batch)) for batch in chosen])
    assert float(sizes.mean()) == pytest.approx(10, abs=5 * math.sqrt(50 * 0.2 * 0.8 / len(chosen)))
    assert float(sizes.var()) == pytest.approx(50 * 0.2 * 0.8, rel=0.15)
    hits = torch.bincount(torch.cat(chosen), minlength=50) / len(chosen)
    assert float((hits - 0.2).abs().max()) < 5 * math.sqrt(0.16 / len(chosen))


def test_an_empty_poisson_batch_is_noise_alone_over_the_expected_size() -> None:
    client = small_client(batch_size=3)
    w0 = client.victim.weights()
    empty = torch.zeros(0, 1, 12, 12), torch.zeros(0, dtype=torch.long)
    step = DPSGD(sigma=1, clip=0.5, poisson=True).gradients(client, seed=0)(client.victim, w0, {}, *empty)
    noise = torch.cat([value.flatten() for value in step.values()])
    assert float(noise.std()) == pytest.approx(0.5 / 3, rel=0.05)
    update = parse_defense("dpsgd:sigma=0.1,poisson=on").train(small_client(n=4, batch_size=1), w0, seed=0)
    assert math.isfinite(update.norm())


def exact_gaussian(sigma: float, delta: float) -> float:
    """Epsilon of one Gaussian release of sensitivity 1 (Balle and Wang 2018)."""

    def excess(epsilon: float) -> float:
        upper = stats.norm.cdf(0.5 / sigma - epsilon * sigma)
        return float(upper - math.exp(epsilon) * stats.norm.cdf(-0.5 / sigma - epsilon * sigma) - delta)

    return float(optimize.brentq(excess, 1e-6, 100))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
def test_the_accountant_agrees_with_the_exact_gaussian_mechanism(sigma: float) -> None:
    spent = epsilon_of(((sigma, 1.0, 1),), 1e-5)
    assert spent.accountant == "PRV"
    assert spent.epsilon == pytest.approx(exact_gaussian(sigma, 1e-5), abs=0.025)
    assert spent.epsilon is not None
    assert spent.epsilon >= exact_gaussian(sigma, 1e-5) - 1e-3


def test_weak_noise_is_accounted_too_and_more_noise_costs_less() -> None:
    found = [epsilon_of(((DPSGD(epsilon=e).noise_multiplier, 0.2, 100),), 1e-5) for e in (10, 100, 1e3, 1e5)]
    assert [spent.accountant for spent in found] == ["PRV", "RDP", "RDP", "RDP"]
    budgets = [spent.epsilon for spent in found]
    assert budgets == sorted(budgets)  # type: ignore[type-var]
    assert budgets[0] == pytest.approx(62.5, abs=0.5)
    assert epsilon_of(((0, 0.2, 100),), 1e-5).epsilon is None


@pytest.mark.parametrize("poisson", [False, True])
def test_the_notes_tell_both_epsilons_and_the_assumption(poisson: bool) -> None:
    client = small_client(n=6, batch_size=3, epochs=2)
    text = f"dpsgd:epsilon=10,poisson={'on' if poisson else 'off'}"
    notes = parse_defense(text).train(client, client.victim.weights(), seed=0).notes["dpsgd"]
    assert isinstance(notes, dict)
    assert notes["nominal_epsilon"] == 10
    assert notes["accounted_epsilon"] > 10
    assert (notes["accountant"], notes["sampling_rate"], notes["steps"]) == ("PRV", 0.5, 4)
    assert "assumes Poisson sampling" in notes["assumption"]
    assert ("not covered" in notes["assumption"]) is not poisson


def test_a_model_that_opacus_cannot_handle_is_refused_with_its_findings() -> None:
    client = small_client(model="resnet8")
    with pytest.raises(InputError, match=r"BatchNorm(?s:.)*ModuleValidator.fix") as caught:
        parse_defense("dpsgd:epsilon=10").check(client)
    assert len(caught.value.problems) == 1


def test_a_missing_opacus_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(InputError, match=r"leakscope\[dp\]"):
        parse_defense("dpsgd:epsilon=10").check(small_client())


@pytest.mark.parametrize(
    "text", ["dpsgd", "dpsgd:epsilon=0", "dpsgd:epsilon=1,sigma=1", "dpsgd:sigma=-1", "dpsgd:epsilon=1,clip=inf"]
)
def test_impossible_budgets_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="dpsgd"):
        parse_defense(text)
