"""Laws of the defenses that transform a finished update."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.client.training import train
from leakscope.defenses import Censor, Clip, Defense, DualPrune, Gaussian, Outpost, Quantize, Soteria, Sparsify
from leakscope.defenses.censor import orthogonal
from leakscope.defenses.outpost import informative, risk
from leakscope.errors import InputError
from leakscope.types import Update, stream
from small import CLIENT, DTYPES, SEEDS, SHAPES, random_update, small_client

RATES = st.floats(0, 0.99)
STRONG: list[Defense] = [
    Sparsify(rate=0.7),
    Sparsify(rate=0.7, scope="global"),
    Clip(bound=1e-3),
    Gaussian(std=1),
    Quantize(bits=3),
    DualPrune(),
    Outpost(),
    Censor(trials=5),
    Soteria(rate=0.5),
]


@settings(deadline=None, max_examples=40)
@given(shapes=SHAPES, dtype=DTYPES, seed=SEEDS)
@pytest.mark.parametrize(
    "idle",
    [
        Sparsify(rate=0),
        Sparsify(rate=0, scope="global"),
        Clip(bound=math.inf),
        Gaussian(std=0),
        Quantize(bits=32),
        DualPrune(largest=0, smallest=0),
        Outpost(noise=0, prune=0),
    ],
    ids=repr,
)
def test_zero_strength_is_the_identity(idle: Defense, shapes: list[list[int]], dtype: torch.dtype, seed: int) -> None:
    update = random_update(shapes, dtype, seed)
    assert_same(idle(update, client=CLIENT, seed=seed), update)


@pytest.mark.parametrize("idle", [Censor(trials=0), Soteria(rate=0)], ids=repr)
def test_zero_strength_is_the_identity_where_the_client_matters(idle: Defense) -> None:
    client = small_client()
    update = train(client, client.victim.weights())
    assert_same(idle(update, client=client, seed=0), update)


@pytest.mark.parametrize("defense", STRONG, ids=repr)
def test_a_defense_changes_its_copy_only_and_follows_its_seed(defense: Defense) -> None:
    client = small_client()
    update = train(client, client.victim.weights())
    before = {name: value.clone() for name, value in update.delta.items()}
    first, again = (defense(update, client=client, seed=3) for _ in range(2))
    assert all(torch.equal(update.delta[name], value) for name, value in before.items())
    assert_same(first, again)
    assert any(not torch.equal(first.delta[name], value) for name, value in before.items())
    assert all(value.shape == before[name].shape for name, value in first.delta.items())


@settings(deadline=None, max_examples=60)
@given(shapes=SHAPES, dtype=DTYPES, seed=SEEDS, rate=RATES)
def test_sparsify_reaches_the_exact_level_and_keeps_the_largest(
    shapes: list[list[int]], dtype: torch.dtype, seed: int, rate: float
) -> None:
    update = random_update(shapes, dtype, seed)
    sparse = Sparsify(rate=rate)(update, client=CLIENT, seed=0)
    for name, value in sparse.delta.items():
        assert_keeps_largest(update.delta[name].flatten(), value.flatten(), rate)
    mixed = Sparsify(rate=rate, scope="global")(update, client=CLIENT, seed=0)
    assert_keeps_largest(flat(update), flat(mixed), rate)


def test_sparsity_of_a_decimal_rate_is_not_lost_to_floats() -> None:
    sparse = Sparsify(rate=0.29)(random_update([[100]], torch.float32, 0), client=CLIENT, seed=0)
    assert int((flat(sparse) == 0).sum()) == 29


@settings(deadline=None, max_examples=60)
@given(shapes=SHAPES, dtype=DTYPES, seed=SEEDS, shares=st.tuples(st.floats(0, 0.49), st.floats(0, 0.5)))
def test_dual_prune_keeps_the_middle(
    shapes: list[list[int]], dtype: torch.dtype, seed: int, shares: tuple[float, float]
) -> None:
    update = random_update(shapes, dtype, seed)
    pruned = DualPrune(largest=shares[0], smallest=shares[1])(update, client=CLIENT, seed=0)
    for name, value in pruned.delta.items():
        ranked = update.delta[name].abs().flatten().sort().values
        low, high = math.floor(shares[1] * len(ranked) + 1e-9), math.floor(shares[0] * len(ranked) + 1e-9)
        assert torch.equal(value[value != 0].abs().sort().values, ranked[low : len(ranked) - high])


@settings(deadline=None, max_examples=60)
@given(shapes=SHAPES, dtype=DTYPES, seed=SEEDS, bound=st.floats(1e-3, 50))
def test_clip_bounds_the_norm_and_keeps_the_direction(
    shapes: list[list[int]], dtype: torch.dtype, seed: int, bound: float
) -> None:
    update = random_update(shapes, dtype, seed)
    clipped = Clip(bound=bound)(update, client=CLIENT, seed=0)
    assert clipped.norm() <= bound * (1 + 1e-6)
    assert clipped.norm() == pytest.approx(min(bound, update.norm()), rel=1e-5)
    assert torch.cosine_similarity(flat(clipped), flat(update), dim=0) == pytest.approx(1, abs=1e-5)
    if update.norm() <= bound:
        assert_same(clipped, update)
    assert clipped.notes["clip"] == {"norm": update.norm(), "binds": update.norm() > bound}


def test_clip_on_the_gradient_is_clip_on_the_update_times_the_learning_rate() -> None:
    update = random_update([[30, 4]], torch.float64, 1, lr=0.02)
    on_gradient = Clip(bound=50, on="gradient")(update, client=CLIENT, seed=0)
    on_update = Clip(bound=50 * 0.02)(update, client=CLIENT, seed=0)
    assert_same(on_gradient, on_update)
    assert math.sqrt(sum(float(g.square().sum()) for g in on_gradient.gradient.values())) == pytest.approx(50)


@pytest.mark.parametrize(("on", "scale"), [("gradient", 0.01), ("update", 1.0)])
def test_gaussian_noise_has_its_moments_in_its_unit(on: str, scale: float) -> None:
    update = random_update([[200, 250], [50_000]], torch.float64, 0, lr=0.01)
    noisy = Gaussian(std=0.3, on=on)(update, client=CLIENT, seed=5)  # type: ignore[arg-type]
    noise = (flat(noisy) - flat(update)) / scale
    count = noise.numel()
    assert abs(float(noise.mean())) < 5 * 0.3 / math.sqrt(count)
    assert float(noise.std()) == pytest.approx(0.3, rel=5 / math.sqrt(2 * count))
    assert float((noise.abs() > 0.6).double().mean()) == pytest.approx(0.0455, abs=0.004)
    other = Gaussian(std=0.3, on=on)(update, client=CLIENT, seed=6)  # type: ignore[arg-type]
    assert abs(float(torch.corrcoef(torch.stack([noise, flat(other) - flat(update)]))[0, 1])) < 0.02


@settings(deadline=None, max_examples=60)
@given(
    shapes=SHAPES,
    dtype=DTYPES,
    seed=SEEDS,
    bits=st.integers(2, 12),
    rounding=st.sampled_from(["stochastic", "nearest"]),
)
def test_quantize_uses_its_levels(
    shapes: list[list[int]], dtype: torch.dtype, seed: int, bits: int, rounding: str
) -> None:
    update = random_update(shapes, dtype, seed)
    coarse = Quantize(bits=bits, rounding=rounding)(update, client=CLIENT, seed=seed)  # type: ignore[arg-type]
    for name, value in coarse.delta.items():
        original = update.delta[name].double()
        step = original.abs().max() / (2 ** (bits - 1) - 1)
        level = value.double() / step
        assert torch.allclose(level, level.round(), atol=1e-3)
        assert level.abs().max() <= 2 ** (bits - 1) - 1 + 1e-3
        error = (value - original).abs().max() / step
        assert error <= (1 if rounding == "stochastic" else 0.5) + 1e-3


def test_stochastic_rounding_is_unbiased_and_one_bit_is_the_sign() -> None:
    update = random_update([[40]], torch.float64, 2)
    draws = torch.stack([flat(Quantize(bits=3)(update, client=CLIENT, seed=seed)) for seed in range(2000)])
    step = float(flat(update).abs().max()) / 3
    assert torch.allclose(draws.mean(dim=0), flat(update), atol=5 * step / 2 / math.sqrt(2000))
    one = flat(Quantize(bits=1)(update, client=CLIENT, seed=0))
    assert torch.equal(one, flat(update).sign() * flat(update).abs().mean())


def test_a_zero_tensor_survives_every_transform() -> None:
    update = random_update([[4, 3]], torch.float32, 0)
    empty = Update(
        update.w0, {name: torch.zeros_like(value) for name, value in update.delta.items()}, update.training, 1
    )
    for defense in (Sparsify(rate=0.5), Clip(bound=1), Quantize(bits=4), DualPrune()):
        assert_same(defense(empty, client=CLIENT, seed=0), empty)
    assert not flat(Quantize(bits=1)(empty, client=CLIENT, seed=0)).any()


@settings(deadline=None, max_examples=60)
@given(shape=st.lists(st.integers(2, 7), min_size=1, max_size=4), dtype=DTYPES, seed=SEEDS, size=st.floats(1e-3, 1e3))
def test_orthogonal_is_orthogonal_and_as_long(shape: list[int], dtype: torch.dtype, seed: int, size: float) -> None:
    g = torch.randn(shape, generator=stream(seed, "g"), dtype=dtype) * size
    z = orthogonal(g, torch.randn(shape, generator=stream(seed, "z")))
    assert z.dtype == dtype
    assert z.norm() == pytest.approx(float(g.norm()), rel=1e-5)
    assert abs(float(torch.cosine_similarity(z.flatten().double(), g.flatten().double(), dim=0))) < 1e-6


def test_censor_sends_an_orthogonal_update_that_lowers_the_loss() -> None:
    client = small_client(epochs=4, lr=0.05)
    update = train(client, client.victim.weights())
    sent = Censor(trials=20, probe=1e-2)(update, client=client, seed=1)
    notes = sent.notes["censor"]
    assert isinstance(notes, dict)
    assert notes["replaced"]
    assert notes["loss_after"] < notes["loss_before"]
    for name, value in sent.delta.items():
        true = update.delta[name].double().flatten()
        assert abs(float(torch.cosine_similarity(value.double().flatten(), true, dim=0))) < 1e-6
        assert value.norm() == pytest.approx(float(true.norm()), rel=1e-4)


def test_censor_sends_the_true_update_where_no_draw_helps() -> None:
    client = small_client()
    trained = train(client, client.victim.weights())
    w = {name: value - trained.delta[name] for name, value in trained.w0.items()}
    update = Update(w, {name: 1e3 * value for name, value in trained.delta.items()}, client.training, 6)
    sent = Censor(trials=3, probe=1e3)(update, client=client, seed=0)  # a step so wide that it can only do harm
    assert_same(sent, update)
    assert sent.notes["censor"]["replaced"] is False  # type: ignore[index]


def test_outpost_prunes_and_perturbs_where_the_fisher_proxy_is_high() -> None:
    update = random_update([[80, 50], [400]], torch.float64, 4, lr=0.01)
    sent = Outpost(noise=0.5, prune=0.8, fisher=0.4)(update, client=CLIENT, seed=2)
    pruned = Sparsify(rate=0.8)(update, client=CLIENT, seed=0)
    marked = informative(update.delta, 0.4)
    assert sum(int(mask.sum()) for mask in marked.values()) == math.floor(0.4 * (50 + 1))
    for name, value in sent.delta.items():
        noise = value - pruned.delta[name]
        where = marked[name].bool().expand_as(noise)
        assert not noise[~where].any()
        if where.any():
            expected = 0.5 * risk(update.w0[name]) * 0.01
            assert float(noise[where].std()) == pytest.approx(expected, rel=0.15)


def test_outpost_acts_ever_more_rarely() -> None:
    update = random_update([[20]], torch.float32, 0)
    acts = [
        Outpost(beta=0.125, iteration=24)(update, client=CLIENT, seed=seed).notes["outpost"]["acts"]  # type: ignore[index]
        for seed in range(800)
    ]
    assert sum(acts) / 800 == pytest.approx(1 / (1 + 0.125 * 24), abs=0.05)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Sparsify(rate=1.0),
        lambda: Sparsify(rate=-0.1),
        lambda: Sparsify(rate=math.nan),
        lambda: Clip(bound=0),
        lambda: Gaussian(std=-1),
        lambda: Gaussian(std=math.inf),
        lambda: Quantize(bits=0),
        lambda: DualPrune(largest=0.5, smallest=0.5),
        lambda: Soteria(rate=1.1),
        lambda: Soteria(rate=0.5, c=0),
        lambda: Censor(trials=-1),
        lambda: Outpost(fisher=2, prune=-1),
    ],
)
def test_a_strength_out_of_range_is_refused(wrong: object) -> None:
    with pytest.raises(InputError):
        wrong()  # type: ignore[operator]


def flat(update: Update) -> torch.Tensor:
    return torch.cat([value.flatten() for value in update.delta.values()])


def assert_same(left: Update, right: Update) -> None:
    assert left.delta.keys() == right.delta.keys()
    assert all(torch.equal(value, right.delta[name]) for name, value in left.delta.items())


def assert_keeps_largest(before: torch.Tensor, after: torch.Tensor, rate: float) -> None:
    kept = after != 0
    assert int((~kept).sum()) == math.floor(rate * len(before) + 1e-9)
    assert torch.equal(after[kept], before[kept])
    if kept.any() and not kept.all():
        assert before[kept].abs().min() >= before[~kept].abs().max()
