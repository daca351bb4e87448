"""The methods to compare with: their laws, and that each goes on where it was interrupted."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leakscope.attacks import ATTACKS, build_attack
from leakscope.attacks.baselines import dlg, fedleak_pixel, ig_official, unrolled
from leakscope.attacks.copies import OrderInvariance, merge
from leakscope.attacks.direction import Gradient, GradientRegularisation, Signed
from leakscope.attacks.known import Dummy, Known
from leakscope.attacks.partial import PartialTopR, SquaredError, largest, mean_gradient
from leakscope.attacks.recipes import ig
from leakscope.attacks.watch import Watch
from leakscope.client.training import batches
from leakscope.victims import Victim
from scenes import tiny_client, tiny_observation

TINY: dict[str, dict[str, object]] = {
    "dlg": {},
    "dlg with L-BFGS": {"optimiser": "lbfgs"},
    "ig-official": {},
    "fedleak": {"width": 4},
    "fedleak-pixel": {},
    "gi-nas": {"width": 16, "candidates": 2},
    "unrolled": {"steps": "full"},
    "unrolled from nl-sme": {"count": 2, "start": "nl-sme"},
    "unrolled with copies from ig-official": {"count": 2, "start": "ig-official", "copies": True},
}


def tiny(name: str, **changes: object):
    return replace(build_attack(name.split(" ")[0], TINY[name]), iterations=8, history=2, **changes)


class Interrupting(Watch):
    """Takes every checkpoint and stops after `after` pieces of work."""

    def __init__(self, after: int) -> None:
        self.after, self.seen, self.state = after, 0, None

    def tick(self, *_: int) -> None:
        self.seen += 1

    def prepare(self, *_: object) -> None:
        self.seen += 1

    def keep(self, checkpoint):
        self.state = checkpoint()

    def stop(self) -> bool:
        return self.seen >= self.after


@pytest.mark.parametrize(
    ("name", "after"),
    [(name, after) for name in TINY for after in ((1, 6) if "from" in name or name == "gi-nas" else (3,))],
)
def test_interrupted_and_resumed_equals_undisturbed(observation, name, after, tmp_path):
    whole = tiny(name)(observation)
    watch = Interrupting(after)
    part = tiny(name)(observation, watch=watch)
    assert part.status == "interrupted"
    assert part.images.shape == whole.images.shape
    torch.save(watch.state, tmp_path / "state.pt")
    resumed = tiny(name)(observation, resume=torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(resumed.images, whole.images)
    assert resumed.l_sim == whole.l_sim
    assert resumed.iterations == whole.iterations == 8
    assert [row["objective"] for row in resumed.history] == [row["objective"] for row in whole.history]


def test_soft_labels_and_images_of_one_step_are_found_by_dlg():
    client = tiny_client(n=1, epochs=1, batch_size=1)
    seen = tiny_observation(client)
    found = replace(dlg(optimiser="lbfgs"), iterations=40)(seen)
    assert found.labels.tolist() == client.batch.labels.tolist()
    assert found.notes["labels"].startswith("optimised")
    mse = float((found.images - client.batch.images).square().mean())
    assert -10 * torch.log10(torch.tensor(mse)) > 30


def test_ig_official_without_signs_is_ig_at_its_rate(observation):
    ours = replace(ig(lr=0.1, tv=0.02), iterations=6)(observation)
    theirs = replace(ig_official(signed="none"), iterations=6)(observation)
    assert torch.equal(ours.images, theirs.images)


def test_a_probe_that_does_not_count_changes_nothing(observation):
    plain = replace(fedleak_pixel(), direction=Gradient(), iterations=4)(observation)
    unblended = replace(fedleak_pixel(blend=0.0), iterations=4)(observation)
    assert torch.equal(plain.images, unblended.images)


def parabola(v):
    return {"x": v["x"].clone()}, v["x"].square().sum() / 2, {}


def test_the_ascent_probe_is_the_gradient_further_up():
    v = {"x": torch.tensor([3.0, 4.0])}
    rule = GradientRegularisation(blend=0.5, probe="ascent", radius=1.0, signed=False)
    blended, value, _ = rule(v, 0.0, parabola, lambda _: None)
    assert blended["x"].tolist() == pytest.approx([3.3, 4.4])
    assert float(value) == 12.5
    assert v["x"].tolist() == [3, 4]


def test_the_optimizer_probe_steps_looks_and_steps_back():
    v = {"x": torch.tensor([3.0, -4.0])}
    rule = GradientRegularisation(blend=0.25, signed=False)

    def far(gradients):
        v["x"].sub_(2 * gradients["x"])

    assert rule(v, 0.0, parabola, far)[0]["x"].tolist() == [1.5, -2.0]
    assert v["x"].tolist() == [3, -4]


def test_signs_hard_and_soft():
    v = {"x": torch.tensor([0.1, -20.0, 0.0])}
    assert Signed()(v, 0.0, parabola, lambda _: None)[0]["x"].tolist() == [1, -1, 0]
    soft = Signed(soft=True)(v, 0.5, parabola, lambda _: None)[0]["x"]
    assert soft.tolist() == pytest.approx([2 * torch.tanh(torch.tensor(0.05)).item(), -2, 0])


def test_the_mean_gradient_of_one_step_is_its_gradient():
    client = tiny_client(epochs=1, batch_size=4)
    known = Known.of(tiny_observation(client), torch.device("cpu"), torch.float64)
    x = client.batch.normalisation.apply(client.batch.images).double()
    g = known.join(known.gradient(known.split(known.w0), x, known.labels).update).detach()
    assert float((mean_gradient(known) - g).norm() / g.norm()) < 1e-4  # the client trains in single precision
    assert float(SquaredError().loss(mean_gradient(known), known)) == 0
    exact = PartialTopR().loss(mean_gradient(known), known)
    assert float(exact) == pytest.approx(-len(known.sizes), abs=1e-3)


@pytest.mark.parametrize(("ratio", "kept"), [(0.5, 5), (0.2, 2), (1.0, 10), (0.0, 1)])
def test_the_largest_entries_are_kept(ratio, kept):
    magnitude = torch.tensor([5.0, 3, 9, 1, 7, 2, 8, 4, 6, 10])
    mask = largest(magnitude, ratio)
    assert int(mask.sum()) == kept
    assert float((magnitude * mask).max()) == 10


def test_partial_matching_ignores_small_entries_of_the_target():
    known = Known.of(tiny_observation(), torch.device("cpu"))
    r = mean_gradient(known)
    matching = PartialTopR(ratio=0.5, by="target")
    small = torch.cat([1 - largest(part.flatten().abs(), 0.5) for part in known.split(r).values()])
    assert int(small.sum()) > 0
    assert float(matching.loss(r + 0.3 * small, known)) == pytest.approx(float(matching.loss(r, known)), abs=1e-5)
    assert float(matching.loss(r + 0.3 * (1 - small), known)) > float(matching.loss(r, known)) + 0.1


def test_copies_in_any_order_merge_to_their_mean():
    first = torch.rand(5, 1, 4, 4)
    shuffled = first[torch.tensor([3, 1, 4, 0, 2])]
    torch.testing.assert_close(merge(torch.cat([first, shuffled + 0.01]), 5), first + 0.005)


@pytest.mark.parametrize("statistic", ["mean", "max"])
def test_the_order_invariant_prior_sees_sets_not_orders(statistic):
    known = Known.of(tiny_observation(), torch.device("cpu"))
    one = torch.rand(known.n, *known.shape)
    prior = OrderInvariance(weight=2.0, statistic=statistic)
    nothing = Dummy((), torch.zeros(()), None)

    def value(other: torch.Tensor) -> float:
        return float(prior({}, torch.cat([one, other]), nothing, known, torch.zeros(())))

    assert value(one.flip(0)) == pytest.approx(0, abs=1e-10)
    assert value(one + 0.1) == pytest.approx(2 * 0.01, rel=1e-4)


def test_a_warm_start_begins_where_the_other_attack_ended(observation):
    class Looking(Watch):
        def __init__(self) -> None:
            self.ticks = []

        def tick(self, iteration: int, iterations: int) -> None:
            self.ticks.append((iteration, iterations))

    watch = Looking()
    found = replace(unrolled(count=2, lr=0.0, start="ig", share=0.5), iterations=8, history=1)(observation, watch=watch)
    alone = replace(ig(), iterations=4, history=1)(observation)
    torch.testing.assert_close(found.images, alone.images)
    assert watch.ticks == [(k, 8) for k in range(1, 9)]
    assert [row["iteration"] for row in found.history] == list(range(1, 9))
    assert found.seconds > alone.seconds / 2
    assert found.notes["start"] == "ig for the first 4 of 8 iterations"


def smooth_client():
    """Five steps on one image each, with a net that has no kinks."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 36, 60),
        nn.Tanh(),
        nn.Linear(60, 5),
    )
    client = tiny_client(n=5, epochs=1, batch_size=1, lr=0.05)
    return replace(client, victim=Victim("smooth", net.eval(), (1, 12, 12), 5))


def test_with_the_true_order_the_simulation_attack_ends_at_the_true_images():
    client = smooth_client()
    assert client.training.steps(5) == 5
    assert client.batch.labels.tolist() == sorted(client.batch.labels.tolist())
    order = tuple((int(batch),) for batch in batches(5, client.training, seed=client.seed))
    attack = unrolled(steps="full", tv=0.0, start="nl-sme", share=0.5)
    attack = replace(attack, surrogate=replace(attack.surrogate, order=order), iterations=320, history=160)
    found = attack(tiny_observation(client))
    assert found.history[0]["l_sim"] > 1e-3
    assert found.l_sim < 1e-4
    assert _psnr(found.images, client.batch.images) > 30


def _psnr(found, truth):
    return float(-10 * torch.log10((found - truth).square().flatten(1).mean(1)).mean())


def test_the_list_tells_paper_knowledge_and_cost():
    for info in ATTACKS.values():
        assert info.paper
        assert "w0" in info.needs
        assert "x" in info.cost
