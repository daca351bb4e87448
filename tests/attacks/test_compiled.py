"""The same objective eagerly, with torch.func, in chunks, in batches and compiled."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from filelock import FileLock
from torch import Tensor, nn

from leakscope.attacks import compiled
from leakscope.attacks.baselines import fedleak, gi_nas
from leakscope.attacks.calculus import Functional
from leakscope.attacks.compiled import Evaluator, disagreement, forward_operations, in_turn, pays, why_not
from leakscope.attacks.descent import Descent
from leakscope.attacks.engine import Attack
from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Calibrated, Layerwise, Masked
from leakscope.attacks.objective import Objective
from leakscope.attacks.priors import ClassLoss, TotalVariation
from leakscope.attacks.recipes import nl_sme, sme, span_sme
from leakscope.attacks.span import FeatureSpan
from leakscope.attacks.surrogate import Bezier
from leakscope.client.training import Client
from leakscope.observation.firewall import Observation
from leakscope.types import ClientBatch, LocalTraining, Normalisation
from leakscope.victims import Victim
from scenes import tiny_client, tiny_observation


def objective_with_everything(dtype: torch.dtype, *, labels: str = "known") -> Objective:
    """Every way in which a gradient may flow: matching, features, loss, soft labels."""
    known = Known.of(tiny_observation(labels=labels), torch.device("cpu"), dtype)
    generator = torch.Generator().manual_seed(1)
    span = torch.linalg.qr(torch.randn(64 * 9, 5, generator=generator, dtype=torch.float64))[0].to(dtype)
    alpha = torch.rand(len(known.sizes), generator=generator).to(dtype)
    priors = (TotalVariation(), ClassLoss(weight=0.1), FeatureSpan(span=span, weight=1.0))
    matching = Layerwise(inner=Calibrated(), alpha=alpha, target=known.delta)
    return Objective(known, Pixels(), Bezier(), matching, priors, {"p1": 0.1, "d": 0.1})


def somewhere(objective: Objective) -> dict[str, Tensor]:
    known, generator = objective.known, torch.Generator().manual_seed(2)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(known.w0)

    v = {
        "x": noise(known.n, *known.shape),
        "t": torch.tensor(0.4).to(known.w0),
        "p1": 1e-2 * noise(len(known.w0)),
        "d": 0.1 * noise(len(known.w0)),
    }
    return v if known.labels is not None else {**v, "y": noise(known.n, known.classes)}


@pytest.mark.parametrize(("name", "trusted"), [("t", True), ("x", False), ("p1", False)])
def test_a_compiled_gradient_is_judged_by_its_vectors(name, trusted):
    objective = objective_with_everything(torch.float64)

    def wrong(objective: Objective, v: dict[str, Tensor], progress: Tensor):
        gradients, value, terms = objective.evaluate(v, progress)
        return {**gradients, name: 2 * gradients[name]}, value, terms

    found = disagreement(wrong, objective, somewhere(objective), torch.tensor(0.5, dtype=torch.float64))
    assert found is None if trusted else f"gradient of {name} differs by 1" in found


def assert_same(one, two, tolerance: float) -> None:
    assert one[0].keys() == two[0].keys()
    for name, gradient in one[0].items():
        gap = float((gradient - two[0][name]).norm() / gradient.norm())
        assert gap < tolerance, (name, gap)
    assert float(one[1]) == pytest.approx(float(two[1]), rel=tolerance)


HALFWAY = torch.tensor(0.5)


@pytest.mark.parametrize("labels", ["known", "none"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
@pytest.mark.parametrize("changes", [{"calculus": Functional()}, {"chunk": 3}, {"chunk": 1}], ids=str)
def test_other_ways_give_the_same_gradients(labels, dtype, tolerance, changes):
    objective = objective_with_everything(dtype, labels=labels)
    v = somewhere(objective)
    other = replace(objective, **changes)
    assert_same(objective.evaluate(v, HALFWAY.to(dtype)), other.evaluate(v, HALFWAY.to(dtype)), tolerance)


def test_a_batch_of_restarts_gives_the_gradients_of_each():
    objective = objective_with_everything(torch.float64)
    starts = [somewhere(objective), {name: 0.5 * value for name, value in somewhere(objective).items()}]
    stacked = {name: torch.stack([start[name] for start in starts]) for name in starts[0]}
    batched = replace(objective, calculus=Functional())
    found = torch.func.vmap(lambda v: batched.evaluate(v, HALFWAY.double()))(stacked)
    for k, start in enumerate(starts):
        mine = ({name: value[k] for name, value in found[0].items()}, found[1][k], {})
        assert_same(objective.evaluate(start, HALFWAY.double()), mine, 1e-9)


def client_of(module: nn.Module) -> Observation:
    """A client with a model of its own."""
    given = tiny_client()
    batch = given.batch
    victim = Victim("mine", module.eval(), (1, 12, 12), batch.classes)
    return tiny_observation(Client(victim, batch, given.training))


class Plain(nn.Module):
    """As little as can be compiled."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(144, 5))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits


class Branching(Plain):
    """Looks at the values of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.mean() > -100 else super().forward(-x)


def short(attack: Attack, **changes: object) -> Attack:
    return replace(attack, iterations=6, history=3, **changes)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("cache")
def test_compiled_equals_eager_with_any_number_of_threads():
    known = Known.of(client_of(Plain()), torch.device("cpu"))
    masked = Masked(inner=nl_sme().matching, mask=torch.ones_like(known.delta))
    run = Descent(replace(nl_sme(), matching=masked), known, None, seed=0, state=None)
    evaluate = Evaluator(compiling=True)
    now = torch.tensor(0.2)
    eager = run.objective.evaluate(run.v, now)
    assert_same(eager, evaluate(run.objective, run.v, now), 1e-5)
    assert evaluate.note == "compiled"
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert_same(eager, evaluate(run.objective, run.v, now), 1e-5)
    finally:
        torch.set_num_threads(before)
    compiled_once = evaluate.run
    other = replace(run.objective, known=replace(known, labels=(known.labels + 1) % 5, delta=2 * known.delta))
    assert_same(other.evaluate(run.v, now), evaluate(other, run.v, now), 1e-5)
    mask = (torch.arange(len(known.delta)) % 3 > 0).to(known.delta)
    other = replace(run.objective, matching=replace(run.objective.matching, mask=mask))
    assert_same(other.evaluate(run.v, now), evaluate(other, run.v, now), 1e-5)
    assert not torch.equal(evaluate(other, run.v, now)[0]["x"], eager[0]["x"])
    assert evaluate.run is compiled_once


def test_networks_of_which_every_run_has_another_are_not_compiled():
    assert why_not(gi_nas()) == "the images come from a network of their own"
    assert why_not(fedleak()) is None
    assert why_not(nl_sme()) is None


def test_nobody_waits_for_ever_behind_a_process_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "PATIENCE", 0.1)
    with FileLock(tmp_path / "lock") as other:
        with in_turn(tmp_path / "lock"):
            pass
        assert other.is_locked
    with in_turn(tmp_path / "lock"), pytest.raises(TimeoutError):
        FileLock(tmp_path / "lock").acquire(timeout=0)


@pytest.mark.usefixtures("cache")
def test_a_model_that_cannot_be_traced_runs_eagerly_and_says_so():
    seen = client_of(Branching())
    found = short(nl_sme(), compile="on")(seen)
    assert str(found.notes["step"]).startswith("eager, because compiling failed")
    assert torch.equal(found.images, short(nl_sme(), compile="off")(seen).images)


WITHOUT_COMPILER = """
import torch
from dataclasses import replace
from leakscope.attacks.recipes import sme
from scenes import tiny_observation
attack = replace(sme(), iterations=3)
found, eager = (replace(attack, compile=way)(tiny_observation()) for way in ("on", "off"))
assert torch.equal(found.images, eager.images)
print(found.notes["step"])
"""


def test_without_a_cpp_compiler_it_runs_eagerly_and_says_so(tmp_path):
    places = os.pathsep.join(sys.path)
    env = {**os.environ, "CXX": "/nonexistent", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONPATH": places}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("eager, because compiling failed")


def test_what_cannot_be_compiled_is_not_tried(observation):
    found = short(sme(), compile="on", chunk=2)(observation)
    assert found.notes["step"] == "eager: dummy images go through the net in chunks"
    assert "step" not in short(sme())(observation).notes


def scene_of(model: str, shape: tuple[int, int, int], classes: int, n: int) -> Known:
    from leakscope.victims import build_victim

    images = torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))
    normalisation = Normalisation((0.5,) * shape[0], (0.25,) * shape[0])
    batch = ClientBatch(images, torch.arange(n) % classes, classes, normalisation, "random")
    training = LocalTraining(epochs=1, batch_size=n)
    client = Client(build_victim(model, shape=shape, classes=classes), batch, training)
    return Known.of(tiny_observation(client), torch.device("cpu"))


def test_compiling_is_chosen_where_it_pays():
    cifar = scene_of("cnn-cifar", (3, 32, 32), 100, 4)
    assert forward_operations(cifar) == pytest.approx(4 * 4.5e7, rel=0.05)
    cifar, femnist = replace(cifar, n=50), replace(scene_of("cnn-mnist", (1, 28, 28), 62, 4), n=50)
    assert pays(nl_sme(), cifar)
    assert not pays(replace(nl_sme(), iterations=100), cifar)
    assert not pays(span_sme(), femnist)
    assert pays(replace(nl_sme(), iterations=600), femnist)
