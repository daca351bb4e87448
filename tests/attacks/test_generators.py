"""Images as the output of untrained networks."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from leakscope.attacks.baselines import fedleak, gi_nas
from leakscope.attacks.generators.base import crop, side_of
from leakscope.attacks.generators.fedleak import Upscaler
from leakscope.attacks.generators.gi_nas import Candidate, Search, candidates, score, with_candidate
from leakscope.attacks.generators.space import CONVOLUTIONS, OPERATORS, RESIZES, SearchedNet, enlarge
from leakscope.attacks.known import Known
from leakscope.attacks.watch import Watch
from leakscope.types import stream
from scenes import tiny_client, tiny_observation


@pytest.fixture
def known() -> Known:
    return Known.of(tiny_observation(), torch.device("cpu"))


@pytest.mark.parametrize(("size", "side"), [(28, 32), (32, 32), (12, 16), (64, 64), (3, 4)])
def test_the_generator_covers_the_image_and_its_centre_is_cut_out(size, side):
    assert side_of((1, size, size - 1), 4) == side
    picture = torch.arange(side * side, dtype=torch.float32).view(1, 1, side, side)
    middle = crop(picture, (1, size, size))
    edge = (side - size) // 2
    assert torch.equal(middle, picture[..., edge : edge + size, edge : edge + size])


@pytest.mark.parametrize("images", [fedleak(width=8).images, gi_nas(width=16).images], ids=["fedleak", "gi-nas"])
def test_decoding_is_a_pure_function_into_the_box(known, images):
    v = {name: variable.start for name, variable in images.variables(known, stream(0, "test")).items()}
    first, second = images.decode(v, known), images.decode(v, known)
    assert torch.equal(first, second)
    assert first.shape == (known.n, *known.shape)
    low, high = known.normalisation.box(first)
    assert bool((first >= low).all())
    assert bool((first <= high).all())
    assert not torch.equal(first[0], first[1])
    assert images.variables(known, stream(0, "test"))["z"].lr == 0


def test_fedleak_needs_no_spectral_norm_because_scales_of_weights_do_not_matter():
    net = Upscaler(16, 1, 8).double()
    z = torch.randn(4, 128, dtype=torch.float64)
    before = net(z)
    last = list(net.state_dict())[-2]  # the convolution to the image has no batch norm behind it
    with torch.no_grad():
        for name, value in net.named_parameters():
            if value.dim() == 4 and name != last:
                value.mul_(3.0)
    torch.testing.assert_close(net(z), before, atol=1e-3, rtol=0)


def test_fedleak_is_as_wide_as_published():
    count = sum(value.numel() for value in Upscaler(32, 3, 256).parameters())
    assert count == 128 * 256 * 16 + 8 * 256 * 256 * 9 + 9 * 512 + 3 * 257


def test_every_operator_enlarges_twofold():
    assert len(set(OPERATORS)) == len(OPERATORS) == 3 * 63 + 2 * 48
    assert {operator.resize for operator in OPERATORS} == set(RESIZES)
    assert {operator.conv for operator in OPERATORS} == set(CONVOLUTIONS)
    x = torch.randn(2, 16, 4, 4)
    for operator in OPERATORS[::7]:
        assert enlarge(operator, 16)(x).shape == (2, 16, 8, 8)


@pytest.mark.parametrize("switch", range(0, 25, 4))
def test_every_skip_reaches_the_output(switch):
    z = torch.randn(2, 3, 32, 32)
    skips = tuple(place == switch for place in range(25))
    nets = []
    for chosen in (skips, (False,) * 25):
        torch.manual_seed(0)
        nets.append(SearchedNet(chosen, OPERATORS[0], 1, 16))
    with torch.no_grad():
        one, other = (net(z) for net in nets)
    assert one.shape == (2, 1, 32, 32)
    assert not torch.equal(one, other)


def test_all_skips_at_once_and_a_single_image_work():
    net = SearchedNet((True,) * 25, OPERATORS[-1], 3, 16)
    assert bool(net(torch.randn(1, 3, 32, 32)).isfinite().all())


def test_candidates_are_repeatable_and_can_be_packed():
    first, again = list(islice(candidates(3), 4)), list(islice(candidates(3), 4))
    assert first == again
    assert len({candidate.skips for candidate in first}) > 1
    assert Candidate.unpack(first[2].pack()) == first[2]


class Counting(Watch):
    """Stops the search after some candidates."""

    def __init__(self, stop_after: int = 99) -> None:
        self.seen: list[tuple[int, int]] = []
        self.after = stop_after

    def prepare(self, what: str, done: int, total: int) -> None:
        assert what == "candidates"
        self.seen.append((done, total))

    def stop(self) -> bool:
        return len(self.seen) >= self.after


def ignore(_):
    """No checkpoints."""


def test_the_winner_has_the_lowest_score_and_keeps_its_weights(known):
    attack = gi_nas(width=16)
    watch = Counting()
    found = Search(count=5)(attack, known, seed=7, watch=watch, before=None, keep=ignore)
    scores = [score(with_candidate(attack, one), known, 7) for one in islice(candidates(7), 5)]
    note = found.notes["search"]
    assert watch.seen == [(k, 5) for k in range(1, 6)]
    assert note["score"] == pytest.approx(min(scores))
    assert note["score"] < note["median"] == pytest.approx(sorted(scores)[2])
    winner = next(iter(islice(candidates(7), scores.index(min(scores)), None)))
    assert Candidate.unpack(found.found["candidate"]) == winner
    assert score(Search(count=5).compose(attack, found.found), known, 7) == pytest.approx(min(scores))


def test_an_interrupted_search_goes_on_where_it_was(known):
    attack = gi_nas(width=16)
    part = Search(count=4)(attack, known, seed=1, watch=Counting(2), before=None, keep=ignore)
    assert not part.finished
    assert part.notes["search"]["candidates"] == 2
    watch = Counting()
    whole = Search(count=4)(attack, known, seed=1, watch=watch, before=part, keep=ignore)
    assert watch.seen == [(3, 4), (4, 4)]
    undisturbed = Search(count=4)(attack, known, seed=1, watch=Counting(), before=None, keep=ignore)
    assert torch.equal(whole.found["candidate"], undisturbed.found["candidate"])


def test_the_width_follows_the_device_and_is_said(observation):
    known = Known.of(observation, torch.device("cpu"))
    attack, _, notes = fedleak().adapt(known)
    assert attack.images.width == 32
    assert notes["generator"] == "32 of 256 channels, the default on a CPU"
    attack, _, notes = gi_nas(width=16).adapt(known)
    assert attack.images.width == 16
    assert notes["generator"] == "16 of 128 channels, as asked"
    assert attack.preparation == Search(count=20)


def test_a_single_image_can_be_generated():
    seen = tiny_observation(tiny_client(n=1, batch_size=1))
    for attack in (fedleak(width=8), gi_nas(width=16, candidates=1)):
        assert bool(replace(attack, iterations=2)(seen).images.isfinite().all())
