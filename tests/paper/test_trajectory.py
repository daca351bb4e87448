"""The client's true trajectory."""

import pytest
import torch

from leakscope import data
from leakscope.cells.request import Request
from leakscope.cells.scene import make_client
from leakscope.client.start import starting_weights
from leakscope.client.training import train
from leakscope.paper.trajectory import linear_error, theorem1

SMALL = Request(n=2, epochs=2, batch_size=1, lr=0.1, attacks=("sme",))


def test_two_passes_measure_what_a_recorded_trajectory_measures():
    (cell,) = SMALL.cells()
    dataset = data.load("photos")
    client = make_client(cell.client, dataset, cell.client.seed)
    w0 = starting_weights(cell.client.w0, client.victim, dataset, avoid=client.batch, seed=cell.client.seed)
    states = train(client, w0, record=True).trajectory
    flat = torch.stack([torch.cat([value.double().flatten() for value in state.values()]) for state in states])
    t = torch.linspace(0, 1, len(states), dtype=torch.float64)[:, None]
    recorded = float((flat - (1 - t) * flat[0] - t * flat[-1]).norm(dim=1)[:-1].mean())
    assert linear_error(cell)["linear_error"] == pytest.approx(recorded, rel=1e-5)
    assert recorded > 0


def test_one_step_is_a_straight_line():
    (cell,) = Request(n=2, epochs=1, batch_size=2, lr=0.1, attacks=("sme",)).cells()
    assert linear_error(cell) == {"linear_error": 0.0}


def test_the_bound_of_theorem_1_holds_on_a_real_trajectory():
    (cell,) = Request(n=2, epochs=3, batch_size=2, lr=0.1, attacks=("sme",)).cells()
    found = theorem1(cell)
    assert 0 < found["mismatch"] <= found["bound"]
    assert found["secant"] <= found["lipschitz"]
    assert found["ratio"] == pytest.approx(found["mismatch"] / found["bound"])
