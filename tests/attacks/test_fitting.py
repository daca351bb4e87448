"""How much memory an attack takes, and the attack that takes less."""

from dataclasses import replace

import pytest
import torch

from leakscope.attacks import fitting
from leakscope.attacks.descent import Descent
from leakscope.attacks.fitting import Fit, activations_mb, estimate_mb, in_chunks, low_memory
from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.lean import Lean
from leakscope.attacks.matching import Calibrated, CalibratedTensors, Cosine, Masked
from leakscope.attacks.objective import Objective
from leakscope.attacks.priors import TotalVariation
from leakscope.attacks.recipes import nl_sme, sme
from leakscope.attacks.surrogate import Bezier
from leakscope.errors import InputError
from scenes import tiny_client, tiny_observation


@pytest.fixture(scope="module")
def known() -> Known:
    return Known.of(tiny_observation(), torch.device("cpu"), torch.float64)


def per_tensor(known: Known) -> CalibratedTensors:
    return CalibratedTensors(counts=tuple(size.numel() for size in known.sizes.values()))


def test_a_number_per_tensor_is_the_same_number_for_each_of_its_entries(known):
    matching = per_tensor(known)
    d = torch.rand(len(matching.counts), dtype=torch.float64)
    spread = d.repeat_interleave(torch.tensor(matching.counts))
    g, slope = torch.randn(2, len(known.delta), dtype=torch.float64)
    full = Calibrated()
    torch.testing.assert_close(matching.calibrate({"d": d}, g), full.calibrate({"d": spread}, g))
    mine, theirs = matching.pull({"d": d}, g, slope)["d"], full.pull({"d": spread}, g.clone(), slope)["d"]
    torch.testing.assert_close(mine, torch.stack([part.sum() for part in theirs.split(matching.counts)]))


def test_the_gradient_of_a_number_per_tensor_agrees_with_finite_differences(known):
    objective = Objective(known, Pixels(), Bezier(), per_tensor(known), (TotalVariation(),), {"d": 0.1})
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(known.n, *known.shape, generator=generator, dtype=torch.float64)
    v = {"x": x, "t": torch.tensor(0.4).double(), "p1": torch.zeros_like(known.w0)}
    d = 0.1 * torch.rand(len(known.sizes), generator=generator, dtype=torch.float64)
    now = torch.tensor(0.5).double()
    found = objective.evaluate({**v, "d": d}, now)[0]["d"]
    for layer in range(len(d)):
        step = torch.zeros_like(d)
        step[layer] = 1e-6
        ends = [float(objective.evaluate({**v, "d": d + sign * step}, now)[1]) for sign in (1, -1)]
        assert float(found[layer]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-9)


def test_lean_is_adam_with_one_second_moment_per_tensor():
    generator = torch.Generator().manual_seed(0)
    start, gradients = torch.randn(40, generator=generator), torch.randn(5, 40, generator=generator)
    mine, theirs, blocks = start.clone(), start.clone(), start.clone()
    lean = Lean([{"params": [mine], "lr": 0.1}, {"params": [blocks], "lr": 0.1, "counts": [30, 10]}])
    adam = torch.optim.Adam([theirs], lr=0.1)
    expected, mean, square = start.clone(), torch.zeros(40), torch.zeros(2)
    for k, gradient in enumerate(gradients, 1):
        mine.grad, theirs.grad, blocks.grad = gradient.clone(), gradient.clone(), gradient.clone()
        lean.step()
        adam.step()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * torch.stack([gradient[:30].square().mean(), gradient[30:].square().mean()])
        scale = (square / (1 - 0.999**k)).sqrt().repeat_interleave(torch.tensor([30, 10]))
        expected -= 0.1 * mean / (1 - 0.9**k) / scale
    torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    torch.testing.assert_close(blocks, expected, atol=1e-6, rtol=0)
    assert lean.state[blocks]["exp_avg_sq"].shape == (2,)


def large_floats(run: Descent) -> int:
    """Floats in variables and moments that are as large as the model."""
    p = len(run.known.w0)
    kept = [*run.v.values(), *(value for state in run.optimiser.state.values() for value in state.values())]
    return sum(value.numel() for value in kept if isinstance(value, torch.Tensor) and value.numel() == p)


@pytest.mark.parametrize(("low", "copies"), [(False, 4), (True, 2)])
def test_copies_of_the_model_beyond_sme(known, low, copies):
    attack = low_memory(nl_sme(), known) if low else nl_sme()
    run = Descent(attack, known, None, seed=0, state=None)
    run.step()
    assert large_floats(run) == copies * len(known.w0)
    sizes = [estimate_mb(each, known) for each in (attack, sme())]
    assert sizes[0] - sizes[1] == pytest.approx(copies * 8 * len(known.w0) / 2**20, rel=0.01)


def test_the_matching_inside_another_gets_smaller_too(known):
    wrapped = replace(nl_sme(), matching=Masked(inner=Calibrated(lr_d=0.5), mask=torch.ones_like(known.delta)))
    low = low_memory(wrapped, known).matching
    assert isinstance(low, Masked)
    assert isinstance(low.inner, CalibratedTensors)
    assert low.inner.lr_d == 0.5
    assert low_memory(sme(), known).matching == Cosine()


def test_chunks_are_equal_and_keep_below_the_limit(known):
    known = replace(known, n=100)
    one = activations_mb(known)
    assert in_chunks(sme(), known, 200 * one) == (sme(), None)
    chunked, why = in_chunks(sme(), known, 30 * one)
    assert chunked.chunk == 25
    assert why == "4 passes"


def test_batch_norm_in_train_mode_is_never_cut():
    known = Known.of(tiny_observation(tiny_client(model="resnet8", mode="train")), torch.device("cpu"))
    attack, why = in_chunks(sme(), known, 1e-6)
    assert attack.chunk is None
    assert why == "all images in one pass: batch norm mixes them"


def test_what_cannot_fit_is_refused_with_advice(known, monkeypatch):
    attack, _, notes = Fit()(sme(), known)
    assert attack == sme()
    assert notes["memory"]["needed_mb"] > 0
    monkeypatch.setattr(fitting, "available_mb", lambda _: 100.0)
    with pytest.raises(InputError, match="--memory low"):
        Fit()(sme(), known)
    with pytest.raises(InputError, match="--n smaller"):
        Fit(memory="low")(sme(), known)


def test_low_memory_still_reconstructs():
    client = tiny_client(n=1, epochs=1, batch_size=1)
    attack = replace(nl_sme(lr=0.1), iterations=300, adaptations=(Fit(memory="low"),))
    found = attack(tiny_observation(client))
    mse = float((found.images - client.batch.images).square().mean())
    assert 10 * torch.log10(torch.tensor(1 / mse)) > 25
