"""Images from features."""

from dataclasses import replace

import pytest
import torch

from leakscope.attacks.inversion import preimage
from leakscope.attacks.inversion.front import Front
from leakscope.attacks.inversion.preimage import Preimages, colour_variation, misfit, opponent
from leakscope.attacks.known import Known


@pytest.fixture
def front(observation) -> Front:
    return Front.of(Known.of(observation, torch.device("cpu")))


def begin(front: Front, client, **changes: object) -> Preimages:
    with torch.no_grad():
        wanted = front(client.batch.images)
    return Preimages(
        **{"front": front, "wanted": wanted, "images": torch.full((4, 1, 12, 12), 0.5), "steps": 120, **changes}
    )


def test_images_are_found_from_their_features(front, client):
    found = begin(front, client)
    start = float((found.images - client.batch.images).square().mean())
    while found.done < found.steps:
        found.step()
    assert float(found.misfit().max()) < 1e-3
    assert float((found.images - client.batch.images).square().mean()) < start / 50


def test_chunks_change_nothing_but_rounding(front, client):
    whole, pieces = begin(front, client), begin(front, client, chunk=3)
    for _ in range(3):
        whole.step()
        pieces.step()
    torch.testing.assert_close(whole.images, pieces.images)


def test_packed_and_unpacked_goes_on_bit_for_bit(front, client):
    whole = begin(front, client)
    for _ in range(4):
        whole.step()
    again = begin(front, client)
    again.unpack(whole.pack())
    for one in (whole, again):
        one.step()
    assert torch.equal(whole.images, again.images)


def test_images_stay_apart(front, client):
    """Each has an objective of its own: the others change none of its steps."""
    together, alone = begin(front, client), begin(front, client)
    alone = replace(alone, wanted=alone.wanted[:1], images=alone.images[:1])
    for one in (together, alone):
        one.step()
    torch.testing.assert_close(together.images[:1], alone.images)


def test_opponent_colours_turn_the_colour_space(monkeypatch):
    monkeypatch.setattr(preimage, "CHROMA", 1.0)
    images = torch.rand(2, 3, 4, 5)
    torch.testing.assert_close(opponent(images).square().sum(1), images.square().sum(1))
    grey = torch.rand(2, 1, 4, 5).expand(2, 3, 4, 5)
    assert float(opponent(grey)[:, 1:].abs().max()) < 1e-6
    assert torch.equal(opponent(images[:, :1]), images[:, :1])


def test_a_flat_image_has_no_variation_and_colour_counts_more():
    flat = torch.full((1, 3, 6, 6), 0.3)
    assert float(colour_variation(flat)) == pytest.approx(0, abs=2e-3)
    step = torch.zeros(1, 1, 6, 6)
    step[..., 3:] = 0.3
    bright, red = step.expand(1, 3, 6, 6), torch.cat([step, flat[:, :2] * 0], 1)
    assert float(colour_variation(red)) > 2 * float(colour_variation(bright)) / 3**0.5


def test_misfit_is_a_share_of_the_wanted_energy():
    wanted = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    assert misfit(torch.zeros(2, 2), wanted).tolist() == [1, 1]
    assert misfit(2 * wanted, wanted).tolist() == [1, 1]
