"""Adam with one second moment per tensor."""

import copy

import torch

from leakscope.attacks.optimisers import adam, adam_lean


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


def test_it_goes_on_from_what_it_remembers():
    for counts in ([5, 2], [12]):
        start = torch.randn(12, generator=torch.Generator().manual_seed(0))
        half, optimiser = steps(adam_lean, start.clone(), 10, counts=counts)
        other = half.clone()
        again = adam_lean({"x": other}, {"x": 0.1}, counts)
        again.load_state_dict(copy.deepcopy(optimiser.state_dict()))
        whole, _ = steps(adam_lean, half, 10, counts=counts, optimiser=optimiser)
        resumed, _ = steps(adam_lean, other, 10, counts=counts, optimiser=again)
        assert torch.equal(whole, resumed)
