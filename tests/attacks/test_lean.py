"""Adam with one second moment per tensor."""

import copy

import pytest
import torch

from leakscope.attacks.optimisers import adam, adam_lean, nadam_lean


def steps(make, start, count, *, counts, optimiser=None):
    v = {"x": start}
    optimiser = optimiser or make(v, {"x": 0.1}, counts)
    for _ in range(count):
        start.grad = torch.sin(3 * start) + start
        optimiser.step(lambda: None)
    return start, optimiser


def test_small_variables_move_as_with_torchs_own_adam_bit_for_bit():
    start = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    ours, _ = steps(adam_lean, start.clone(), 20, counts=[5, 2])
    theirs, _ = steps(adam, start.clone(), 20, counts=[5, 2])
    assert torch.equal(ours, theirs)


def test_a_block_of_one_entry_is_plain_adam():
    start = torch.randn(7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, _ = steps(adam_lean, start.clone(), 20, counts=[1] * 7)
    theirs, _ = steps(adam, start.clone(), 20, counts=[1] * 7)
    assert torch.allclose(ours, theirs, rtol=1e-12)


def test_entries_of_a_block_move_in_proportion_to_their_gradients():
    variable = torch.zeros(4, dtype=torch.float64)
    optimiser = adam_lean({"p1": variable}, {"p1": 0.1}, [2, 2])
    variable.grad = torch.tensor([3.0, 4.0, 0.0, 1e-3], dtype=torch.float64)
    optimiser.step(lambda: None)
    expected = -0.1 * torch.tensor([3 / 12.5**0.5, 4 / 12.5**0.5, 0, 2**0.5], dtype=torch.float64)
    assert torch.allclose(variable, expected, rtol=1e-4)


def test_looking_ahead_is_the_momentum_after_the_same_gradient_once_more():
    generator = torch.Generator().manual_seed(0)
    start, *gradients = torch.randn(6, 4, 3, generator=generator, dtype=torch.float64)
    ours, expected = start.clone(), start.clone()
    mean, square = torch.zeros_like(start), torch.zeros_like(start)
    optimiser = nadam_lean({"x": ours}, {"x": 0.1}, [5, 2])
    for k, gradient in enumerate(gradients, 1):
        ours.grad = gradient.clone()
        optimiser.step(lambda: None)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        once_more = 0.9 * mean + 0.1 * gradient
        expected -= 0.1 * once_more / (1 - 0.9**k) / ((square / (1 - 0.999**k)).sqrt() + 1e-8)
        torch.testing.assert_close(ours, expected)


def test_looking_ahead_nearly_doubles_the_first_step_and_ends_as_adam_where_nothing_changes():
    variable = torch.zeros(3, dtype=torch.float64)
    optimiser = nadam_lean({"x": variable}, {"x": 0.1}, [5, 2])
    steps = []
    for _ in range(200):
        before, variable.grad = variable.clone(), torch.tensor([2.0, -3.0, 1e-3], dtype=torch.float64)
        optimiser.step(lambda: None)
        steps.append(variable - before)
    signs = torch.tensor([-0.1, 0.1, -0.1], dtype=torch.float64)
    torch.testing.assert_close(steps[0], 1.9 * signs, rtol=1e-4, atol=0)
    torch.testing.assert_close(steps[-1], signs, rtol=1e-4, atol=0)


def test_variables_as_large_as_the_model_do_not_look_ahead():
    start = torch.randn(7, generator=torch.Generator().manual_seed(0))
    ours, _ = steps(nadam_lean, start.clone(), 20, counts=[5, 2])
    theirs, _ = steps(adam_lean, start.clone(), 20, counts=[5, 2])
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("make", [adam_lean, nadam_lean])
def test_it_goes_on_from_what_it_remembers(make):
    for counts in ([5, 2], [12]):  # a small variable, and one as large as the model
        start = torch.randn(12, generator=torch.Generator().manual_seed(0))
        half, optimiser = steps(make, start.clone(), 10, counts=counts)
        other = half.clone()
        again = make({"x": other}, {"x": 0.1}, counts)
        again.load_state_dict(copy.deepcopy(optimiser.state_dict()))
        whole, _ = steps(make, half, 10, counts=counts, optimiser=optimiser)
        resumed, _ = steps(make, other, 10, counts=counts, optimiser=again)
        assert torch.equal(whole, resumed)
