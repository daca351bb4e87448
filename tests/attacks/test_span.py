"""The span of the private features, and unmixing inside it."""

from dataclasses import replace

import pytest
import torch

from leakscope.attacks.known import Known
from leakscope.attacks.recipes import nl_sme, span_sme
from leakscope.attacks.span import FeatureSpan, FollowSpan, SpanImages, sees_raw_image
from leakscope.attacks.unmix import Mixture, Unmix, fill_pages, page_value
from leakscope.client import Client, train
from leakscope.observation import observe
from leakscope.types import ClientBatch, Knowledge, LocalTraining, Normalisation, stream
from leakscope.victims import build_victim
from scenes import tiny_client, tiny_observation


def known_of(client: Client) -> Known:
    return Known.of(tiny_observation(client), torch.device("cpu"))


@pytest.mark.parametrize(("model", "raw"), [("mlp", True), ("vit", True), ("mlp-tiny", True), ("cnn-mnist", False)])
def test_which_models_see_the_raw_image(model, raw):
    assert sees_raw_image(known_of(tiny_client(model=model))) is raw


@pytest.mark.parametrize("model", ["mlp", "vit"])
def test_the_update_of_the_first_layer_has_rank_n_and_holds_the_images(model):
    client = tiny_client(model=model, n=6, epochs=4, lr=0.05)
    known = known_of(client)
    _, sizes, rows = torch.linalg.svd(known.split(known.delta)[f"{known.feature_layer}.weight"].double())
    assert float(sizes[6] / sizes[5]) < 1e-3
    x = client.batch.normalisation.apply(client.batch.images).flatten(1).double()
    basis = rows[:6].T
    assert float((x - x @ basis @ basis.T).norm() / x.norm()) < 1e-3


def test_the_features_of_the_private_images_lie_in_the_span_behind_convolutions():
    client = tiny_client(n=6, epochs=4, lr=0.01)
    attack, known, notes = FollowSpan()(nl_sme(), known_of(client))
    assert isinstance(attack.priors[-1], FeatureSpan)
    assert "prior of weight 3" in notes["span"]
    x = client.batch.normalisation.apply(client.batch.images)
    other = x.flip(-1) + torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    values = []
    for images in (x, other):
        dummy = known.gradient(known.split(known.w0), images, client.batch.labels)
        values.append(float(FeatureSpan(weight=1)({}, images, dummy, known, torch.tensor(1.0)).detach()))
    assert values[0] < 0.01 < values[1]
    assert float(FeatureSpan()({}, x, dummy, known, torch.tensor(0.05)).detach()) == 0


def test_a_blurred_span_steps_back():
    client = tiny_client(n=4)
    known = known_of(client)
    noisy = replace(known, delta=known.delta + known.delta.std() * torch.randn(known.delta.shape))
    attack, _, _ = FollowSpan()(nl_sme(), noisy)
    assert attack.priors[-1].weight < 0.1


def test_exact_spans_are_searched_from_inside_with_the_straight_line():
    client = tiny_client(model="mlp", n=6, epochs=4, lr=0.05)
    attack, known, _ = FollowSpan()(span_sme(), known_of(client))
    assert isinstance(attack.images, SpanImages)
    assert isinstance(attack.renewal, Unmix)
    assert known.constants["span"].shape == (144, 6)


def mixture(n: int = 8) -> tuple[Client, Known, torch.Tensor]:
    """A wide ReLU layer on raw images; the true coordinates of the images in the span."""
    client = tiny_client(model="mlp", n=n, epochs=6, lr=0.05, batch_size=4)
    _, known, _ = FollowSpan()(span_sme(), known_of(client))
    x = client.batch.normalisation.apply(client.batch.images).flatten(1).double()
    return client, known, x @ known.constants["span"].double()


def test_silent_units_give_the_images_exactly_from_a_rough_start():
    _, known, truth = mixture()
    rough = truth + 0.05 * truth.std() * torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))
    mixed = Mixture.of(known, known.constants["span"].double())
    columns = mixed.harvest(rough, None)
    assert columns.shape == (8, 8)
    found = mixed.apply(rough, columns)
    assert float((found - truth).norm() / truth.norm()) < 1e-2 < float((rough - truth).norm() / truth.norm())


def test_columns_that_were_found_keep_other_images_out():
    _, known, truth = mixture()
    mixed = Mixture.of(known, known.constants["span"].double())
    some = mixed.harvest(truth, None)[:, :5]
    rough = truth + 0.2 * truth.std() * torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))
    assert float((mixed.apply(rough, some) - truth).norm()) < float((rough - truth).norm())


def pages(n: int = 6) -> Client:
    """Dark strokes on an exactly white page."""
    generator = stream(0, "strokes")
    images = torch.ones(n, 1, 12, 12)
    for image in images:
        row, column = torch.randint(1, 8, (2,), generator=generator).tolist()
        image[0, row : row + 3, column : column + 2] = torch.rand(3, 2, generator=generator) * 0.5
    batch = ClientBatch(images, torch.arange(n) % 5, 5, Normalisation((0.9,), (0.2,)), "pages")
    victim = build_victim("vit", shape=(1, 12, 12), classes=5)
    return Client(victim, batch, LocalTraining(epochs=3, batch_size=3, lr=0.02))


def test_a_page_is_found_and_filled():
    client = pages()
    seen = observe(
        train(client, client.victim.weights()),
        client.victim,
        knowledge=Knowledge(),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )
    _, known, _ = FollowSpan()(span_sme(), Known.of(seen, torch.device("cpu")))
    basis = known.constants["span"].double()
    x = client.batch.normalisation.apply(client.batch.images).flatten(1).double()
    truth = x @ basis
    rough = truth + 0.03 * truth.std() * torch.randn(truth.shape, generator=torch.Generator().manual_seed(2))
    white = page_value(rough @ basis.T, known)
    assert white == pytest.approx(0.5)
    filled = fill_pages(rough, basis, white, known)
    assert float((filled - truth).norm()) < 0.1 * float((rough - truth).norm())


def test_photographs_have_no_page():
    client, known, truth = mixture()
    assert page_value(truth @ known.constants["span"].double().T, known) is None
    assert client.batch.dataset == "small"


def test_interrupted_unmixing_goes_on_as_if_nothing_had_happened(tmp_path):
    from test_engine import Interrupting

    observation = tiny_observation(tiny_client(model="mlp", n=6, epochs=4, lr=0.05))
    attack = replace(span_sme(), iterations=20, history=5)
    whole = attack(observation)
    watch = Interrupting(11)
    attack(observation, watch=watch)
    torch.save(watch.state, tmp_path / "state.pt")
    resumed = attack(observation, resume=torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(resumed.images, whole.images)
