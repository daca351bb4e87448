"""Unmix, then invert, as an attack."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leakscope.attacks.composition import HeadStart
from leakscope.attacks.inversion.invert import Invert, obstacle
from leakscope.attacks.known import Known
from leakscope.attacks.recipes import invert, span_sme
from leakscope.client.training import Client, train
from leakscope.metrics import assign
from leakscope.metrics.psnr import psnr
from leakscope.observation.firewall import Observation, observe
from leakscope.types import Knowledge
from leakscope.victims import Victim
from scenes import Interrupting, tiny_client, tiny_observation


@pytest.fixture(scope="module")
def own() -> Client:
    return tiny_client(n=6)


@pytest.fixture(scope="module")
def seen(own: Client) -> Observation:
    return tiny_observation(own)


def net(*middle: nn.Module, features: int = 288, bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        *middle,
        nn.Flatten(),
        nn.Linear(features, 40, bias=bias),
        nn.ReLU(),
        nn.Linear(40, 5),
    ).eval()


def client_of(module: nn.Module, **options: object) -> Client:
    return replace(tiny_client(n=6, **options), victim=Victim("own", module, (1, 12, 12), 5))


def test_every_image_is_found_in_the_order_of_the_labels(own, seen):
    found = replace(invert(), iterations=150)(seen)
    places = list(assign(own.batch.images, found.images))
    assert float(psnr(own.batch.images, found.images[places]).min()) > 25
    assert found.labels[places].tolist() == own.batch.labels.tolist()
    assert str(found.notes["inversion"]).startswith("6 of 6 images")
    assert found.iterations == 1


def test_labels_that_nobody_knows_are_found_with_the_images(own, seen):
    unknown = replace(seen, labels=None, knowledge=Knowledge(labels="none"))
    found = replace(invert(), iterations=30)(unknown)
    places = list(assign(own.batch.images, found.images))
    assert found.labels[places].tolist() == own.batch.labels.tolist()


class InterruptingWork(Interrupting):
    """Stops after so many pieces of the preparation."""

    def prepare(self, *_: object) -> None:
        self.tick()


@pytest.mark.parametrize("after", [1, 8, 30])
def test_interrupted_and_resumed_equals_undisturbed(seen, after, tmp_path):
    attack = replace(invert(), iterations=10)
    whole, watch = attack(seen), InterruptingWork(after)
    part = attack(seen, watch=watch)
    assert part.status == "interrupted"
    assert part.images.shape == whole.images.shape
    torch.save(watch.state, tmp_path / "state.pt")
    resumed = attack(seen, resume=torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(resumed.images, whole.images)
    assert resumed.l_sim == whole.l_sim
    assert resumed.notes["inversion"] == whole.notes["inversion"]


def test_the_seed_decides_and_the_private_side_does_not(own, seen):
    attack = replace(invert(), iterations=5)
    first = attack(seen)
    assert torch.equal(first.images, attack(seen).images)
    update = train(own, own.victim.weights())
    batch = replace(own.batch, images=own.batch.images.clone())
    watched = observe(update, own.victim, knowledge=Knowledge(), normalisation=batch.normalisation, labels=batch.labels)
    batch.images.fill_(0.1)
    for tensor in (*update.delta.values(), *update.buffers_after.values()):
        tensor.zero_()
    assert torch.equal(first.images, attack(watched).images)


def test_found_images_are_held_and_the_attack_goes_on_with_the_others():
    held = torch.tensor([True, False, True])
    start = torch.full((3, 1, 12, 12), 0.2)
    found = {"images": start, "held": held, "variables": {}}
    attack = Invert(polish=0.0, share=0.5).compose(replace(span_sme(), iterations=40), found)
    assert attack.iterations == 20
    assert isinstance(attack.start, HeadStart)
    known = Known.of(tiny_observation(tiny_client(n=3)), torch.device("cpu"))
    variable = attack.images.variables(known, torch.Generator())["x"]
    moved = variable.start + 0.1
    assert variable.project is not None
    variable.project(moved)
    assert torch.equal(moved[held], start[held])
    assert torch.equal(moved[~held], start[~held] + 0.1)


def test_with_polish_all_images_move_at_a_part_of_the_rate():
    found = {"images": torch.zeros(3, 1, 12, 12), "held": torch.ones(3, dtype=torch.bool), "variables": {}}
    attack = Invert(polish=0.1, share=0.4).compose(span_sme(), found)
    assert attack.images.lr == pytest.approx(0.1)
    assert attack.images.held is None
    assert attack.iterations == 120


def test_too_little_leaves_the_attack_as_it_was():
    attack = span_sme()
    assert Invert(polish=0.0, share=0.4).compose(attack, {}) is attack


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (client_of(nn.Sequential(nn.Flatten(), nn.Linear(144, 5))), "sees the image itself"),
        (client_of(net(nn.ReLU(), bias=False)), "no trained bias"),
        (client_of(net(nn.ReLU()), optimizer="adam", lr=1e-3), "adam"),
        (client_of(net(nn.BatchNorm2d(8), nn.ReLU()), mode="train"), "were not sent"),
        (client_of(net(nn.LeakyReLU(0.1))), "too few to tell"),
        (client_of(nn.Sequential(nn.Conv2d(1, 5, 12), nn.Flatten())), "no fully connected layer"),
        (client_of(nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 5))), "too few for N=6"),
    ],
)
def test_where_it_cannot_work_it_says_why_and_is_span_sme(client, why):
    observation = replace(tiny_observation(client), buffers_after={})
    found = replace(invert(), iterations=3)(observation)
    assert why in str(found.notes["inversion"])
    assert torch.equal(found.images, replace(span_sme(), iterations=3)(observation).images)


def test_an_update_without_an_end_of_its_span_is_no_place_to_search(seen):
    draw = torch.Generator().manual_seed(0)
    noisy = {name: torch.randn(value.shape, generator=draw) for name, value in seen.delta.items()}
    known = Known.of(replace(seen, delta=noisy), torch.device("cpu"))
    assert "does not end at rank 6" in str(obstacle(span_sme(), known))
