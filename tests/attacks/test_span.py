"""The span of the private features, and unmixing inside it."""

from dataclasses import replace

import pytest
import torch

from leakscope.attacks.composition import Adapted, Composition, Moment
from leakscope.attacks.drift import Straighten, drift, twins
from leakscope.attacks.follow import FollowSpan
from leakscope.attacks.known import Dummy, Known
from leakscope.attacks.matching import Masked
from leakscope.attacks.pages import fill_pages, page_value
from leakscope.attacks.recipes import nl_sme, span_sme
from leakscope.attacks.reliability import Reliability
from leakscope.attacks.span import FeatureSpan, SpanImages, layer_update, row_space, sees_raw_image
from leakscope.attacks.unmix import USUAL, Mixture, Unmix, inside
from leakscope.client.training import Client, train
from leakscope.observation.firewall import observe
from leakscope.types import ClientBatch, Knowledge, LocalTraining, Normalisation, stream
from leakscope.victims import build_victim
from scenes import Interrupting, tiny_client, tiny_observation

MOMENT = Moment(0.5, torch.tensor(0.1))


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


def follow(client_known: Known, attack: Composition | None = None) -> Adapted:
    return FollowSpan(otherwise=nl_sme())(attack or span_sme(), client_known)


def span_of(attack: Composition) -> torch.Tensor:
    """V, where the attack follows it."""
    (part,) = (part for part in (attack.images, *attack.priors) if isinstance(part, SpanImages | FeatureSpan))
    return part.span


def outside(span: torch.Tensor, known: Known, x: torch.Tensor) -> float:
    """R_span of images."""
    dummy = Dummy((), torch.zeros(()), None)
    return float(FeatureSpan(span=span, weight=1)({}, x, dummy, known, torch.tensor(1.0)))


def test_the_features_of_the_private_images_lie_in_the_span_behind_convolutions():
    client = tiny_client(n=6, epochs=4, lr=0.01)
    attack, known, notes = follow(known_of(client))
    assert isinstance(attack.priors[-1], FeatureSpan)
    assert str(notes["span"]).startswith("prior")
    x = client.batch.normalisation.apply(client.batch.images)
    other = x.flip(-1) + torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    assert outside(span_of(attack), known, x) < 0.01 < outside(span_of(attack), known, other)
    dummy = Dummy((), torch.zeros(()), None)
    assert float(FeatureSpan(span=span_of(attack))({}, x, dummy, known, torch.tensor(0.05))) == 0


def test_without_its_drift_the_update_holds_the_features_of_the_mid_model_exactly():
    client = tiny_client(n=6, epochs=5, batch_size=6, lr=0.05)
    attack, known, _ = FollowSpan(otherwise=nl_sme(), margin=0)(span_sme(), known_of(client))
    x = client.batch.normalisation.apply(client.batch.images)
    straight = row_space(layer_update(known) - drift(known, x, client.batch.labels), 6)[0]
    assert outside(straight.to(known.w0), known, x) < 1e-9 < 1e-6 < outside(span_of(attack), known, x)


def test_a_rough_reconstruction_in_another_order_is_enough_to_straighten():
    client = tiny_client(n=6, epochs=20, batch_size=3, lr=0.02)
    attack, known, _ = follow(known_of(client))
    x = client.batch.normalisation.apply(client.batch.images)
    rough = x + 0.05 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    labelled = replace(known, labels=client.batch.labels)
    renewed = Straighten(part_twins=0)({"x": rough}, attack, labelled, MOMENT)
    assert renewed.moved == {}
    assert outside(span_of(renewed.attack), known, x) < 0.7 * outside(span_of(attack), known, x)


def test_of_two_dummies_on_one_image_the_second_begins_anew():
    client = tiny_client(n=6, epochs=4, lr=0.01)
    attack, known, _ = follow(known_of(client))
    x = torch.randn(6, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    x[4] = x[2] + 0.01
    assert twins(x) == [4]
    renewed = Straighten()({"x": x}, attack, known, MOMENT).moved["x"]
    assert [i for i in range(6) if not torch.equal(renewed[i], x[i])] == [4]
    assert twins(renewed) == []


def noisy(known: Known) -> Known:
    generator = torch.Generator().manual_seed(0)
    return replace(known, delta=known.delta + known.delta.std() * torch.randn(known.delta.shape, generator=generator))


def test_where_the_span_is_blurred_it_is_nl_sme():
    known = noisy(known_of(tiny_client(n=4)))
    attack, _, notes = follow(known)
    nl = nl_sme()
    assert replace(attack, name="nl-sme", adaptations=nl.adaptations) == nl
    assert "nl-sme instead" in str(notes["span"])


def test_too_many_images_for_the_layer_leave_no_span():
    client = tiny_client(n=6, batch_size=6)
    known = replace(known_of(client), n=101)
    assert "too few for N=101" in str(follow(known)[2]["span"])


def test_the_asked_number_of_iterations_is_kept_and_so_is_the_mask():
    known = noisy(known_of(tiny_client(n=4)))
    mask = torch.ones_like(known.delta)
    masked = replace(span_sme(), iterations=40, matching=Masked(inner=span_sme().matching, mask=mask))
    attack, _, _ = follow(known, masked)
    assert attack.iterations == 40
    assert attack.matching == Masked(inner=nl_sme().matching, mask=mask)


def test_exact_spans_are_searched_from_inside_with_the_straight_line():
    client = tiny_client(model="mlp", n=6, epochs=4, lr=0.05)
    attack, _, _ = follow(known_of(client))
    assert isinstance(attack.images, SpanImages)
    assert isinstance(attack.renewal, Unmix)
    assert span_of(attack).shape == (144, 6)


@pytest.mark.parametrize("model", ["mlp", "cnn-mnist"])
def test_a_noisy_update_has_no_span_to_believe(model):
    known = known_of(tiny_client(model=model, n=6, epochs=4, lr=0.05))
    noisy = replace(known, delta=known.delta + 0.5 * known.delta.std() * torch.randn_like(known.delta))
    attack, seen, _ = Reliability()(span_sme(), noisy)
    attack, _, notes = follow(seen, attack)
    assert "noisy" in str(notes["span"])
    assert attack.iterations == nl_sme().iterations


def test_an_image_that_is_there_twice_leaves_a_smaller_span():
    client = tiny_client(model="mlp", n=6, epochs=4, lr=0.05)
    images = client.batch.images.clone()
    images[5] = images[4]
    twice = replace(client, batch=replace(client.batch, images=images))
    attack, _, notes = follow(known_of(twice))
    assert span_of(attack).shape == (144, 5)
    assert "rank 5" in str(notes["span"])
    assert replace(attack, iterations=4)(tiny_observation(twice)).images.shape == images.shape


def mixture(n: int = 8) -> tuple[Client, Known, torch.Tensor, torch.Tensor]:
    """A wide ReLU layer on raw images; the span, and the true coordinates of the images in it."""
    client = tiny_client(model="mlp", n=n, epochs=6, lr=0.05, batch_size=4)
    attack, known, _ = follow(known_of(client))
    x = client.batch.normalisation.apply(client.batch.images).flatten(1).double()
    basis = span_of(attack).double()
    return client, known, basis, x @ basis


def test_silent_units_give_the_images_exactly_from_a_rough_start():
    _, known, basis, truth = mixture()
    rough = truth + 0.05 * truth.std() * torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))
    mixed = Mixture.of(known, basis)
    columns = mixed.harvest(rough, rough.new_zeros(8, 0), USUAL)
    assert columns.shape == (8, 8)
    found, rest = mixed.apply(rough, columns)
    assert rest == []
    assert float((found - truth).norm() / truth.norm()) < 1e-2 < float((rough - truth).norm() / truth.norm())


def test_columns_that_were_found_keep_other_images_out():
    _, known, basis, truth = mixture()
    mixed = Mixture.of(known, basis)
    some = mixed.harvest(truth, truth.new_zeros(8, 0), USUAL)[:, :5]
    rough = truth + 0.2 * truth.std() * torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))
    assert float((mixed.apply(rough, some)[0] - truth).norm()) < float((rough - truth).norm())


def test_images_without_a_column_span_what_the_found_columns_leave():
    _, known, basis, truth = mixture()
    mixed = Mixture.of(known, basis)
    columns = mixed.harvest(truth, truth.new_zeros(8, 0), USUAL)
    known_images, rest = mixed.apply(truth, columns[:, :5])
    assert len(rest) == 3
    assert torch.allclose(known_images[rest], truth[rest], atol=1e-2 * float(truth.norm(dim=1).mean()))
    fresh = mixed.anew(truth, columns[:, :7], torch.Generator().manual_seed(0))
    assert float((fresh - fresh[:1]).norm()) < 1e-6 * float(fresh.norm())  # one direction and its length are known
    assert float(torch.cdist(fresh[:1], truth).min() / truth.norm(dim=1).mean()) < 1e-2


def test_every_image_lies_on_the_level_that_the_bias_gives():
    _, known, basis, truth = mixture()
    mixed = Mixture.of(known, basis)
    assert torch.allclose(truth @ mixed.level, torch.ones(8, dtype=torch.float64), atol=1e-3)


def test_a_column_of_two_images_is_parted_by_one_of_them():
    _, known, basis, truth = mixture()
    mixed = Mixture.of(known, basis)
    columns = mixed.harvest(truth, truth.new_zeros(8, 0), USUAL)
    both = columns[:, 0] - 0.7 * columns[:, 1]
    parted = mixed._apart([columns[:, 1], both / both.norm()])
    overlap = (torch.stack(parted) @ columns[:, :2]).abs()
    assert bool((overlap.amax(0) > 0.999).all())


def test_an_image_that_leaves_the_box_is_taken_back():
    client, known, basis, _ = mixture()
    x = client.batch.normalisation.apply(client.batch.images).flatten(1)
    before = x.double() @ basis
    after = 1.01 * before
    after[3] = 4 * before[3]
    kept = inside(after, before, basis, known)
    assert torch.equal(kept[3], before[3])
    assert torch.equal(kept[:3], after[:3])


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
    attack, known, _ = follow(Known.of(seen, torch.device("cpu")))
    basis = span_of(attack).double()
    x = client.batch.normalisation.apply(client.batch.images).flatten(1).double()
    truth = x @ basis
    rough = truth + 0.03 * truth.std() * torch.randn(truth.shape, generator=torch.Generator().manual_seed(2))
    white = page_value(rough @ basis.T, known)
    assert white == pytest.approx(0.5)
    filled = fill_pages(rough, basis, white, known, Mixture.of(known, basis).level)
    assert float((filled - truth).norm()) < 0.1 * float((rough - truth).norm())


def test_an_image_that_leads_nowhere_stays_as_it_was():
    client = pages()
    seen = tiny_observation(client)
    attack, known, _ = follow(Known.of(seen, torch.device("cpu")))
    basis = span_of(attack).double()
    blank = torch.zeros(6, basis.shape[1], dtype=torch.float64)
    for z in (blank, 1e160 * torch.ones_like(blank)):
        assert bool(fill_pages(z, basis, 0.5, known, z.new_zeros(basis.shape[1])).isfinite().all())
        assert bool(Unmix()({"z": z}, attack, known, MOMENT).moved["z"].isfinite().all())


def test_photographs_have_no_page():
    client, known, basis, truth = mixture()
    assert page_value(truth @ basis.T, known) is None
    assert client.batch.dataset == "small"


@pytest.mark.parametrize("model", ["mlp", "cnn-mnist"])
def test_interrupted_renewal_goes_on_as_if_nothing_had_happened(model, tmp_path):
    observation = tiny_observation(tiny_client(model=model, n=6, epochs=4, lr=0.05))
    attack = replace(span_sme(), iterations=20, history=5)
    whole = attack(observation)
    watch = Interrupting(11)
    attack(observation, watch=watch)
    torch.save(watch.state, tmp_path / "state.pt")
    resumed = attack(observation, resume=torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(resumed.images, whole.images)
