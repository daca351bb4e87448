"""dggi: its laws, the evidence that keeps it from falling below its start, and what it refuses."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

pytest.importorskip("diffusers", reason="dggi needs diffusers (extra `diffusion`)")

from leakscope.attacks import build_attack
from leakscope.attacks.composition import HeadStart, Moment
from leakscope.attacks.diffusion import granting
from leakscope.attacks.diffusion.denoising import Interleave, Score
from leakscope.attacks.diffusion.evidence import Belief
from leakscope.attacks.known import Dummy, Known
from leakscope.attacks.recipes import nl_sme, sme
from leakscope.errors import InputError
from leakscope.prior.denoiser import Denoiser
from leakscope.prior.folder import fingerprint, read_denoiser
from leakscope.prior.frame import put_in_frame, take_from_frame
from priors import tiny_prior
from scenes import Interrupting, tiny_client, tiny_observation

MODES = ("interleaved", "dps", "score")
ITERATIONS, FIRST = 10, 6


@pytest.fixture
def granted():
    return tiny_observation(auxiliary=True)


def dggi(prior: Path, **settings: object):
    return replace(build_attack("dggi", {"prior": str(prior), **settings}), iterations=ITERATIONS, history=2)


@pytest.mark.parametrize(("state", "recipe"), [("sme", sme), ("nl-sme", nl_sme)])
@pytest.mark.parametrize("nothing", [{"mode": "interleaved", "kappa": 0.0}, {"mode": "score", "weight": 0.0}])
def test_a_prior_of_no_strength_changes_nothing(granted, prior, state, recipe, nothing):
    with_prior = dggi(prior, state=state, share=0.0, polish=0, **nothing)(granted)
    without = replace(recipe(), iterations=ITERATIONS, history=2)(granted)
    assert torch.equal(with_prior.images, without.images)
    assert with_prior.l_sim == without.l_sim
    assert with_prior.notes["prior_trust"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_the_first_part_is_sme_itself(granted, prior, mode):
    found = dggi(prior, mode=mode)(granted)
    alone = replace(sme(), iterations=FIRST, history=2)(granted)
    shown = [row["objective"] for row in found.history if row["iteration"] <= FIRST]
    assert shown == [row["objective"] for row in alone.history]
    assert found.iterations == ITERATIONS
    assert found.notes["start"] == "sme for the first 6 of 10 iterations"
    assert found.notes["prior"]["mode"] == mode
    assert found.notes["prior"]["fingerprint"] == fingerprint(prior)
    assert found.notes["prior"]["data"] == "smooth"


@pytest.mark.parametrize("mode", MODES)
def test_where_nothing_explains_the_update_as_well_the_start_is_kept(granted, prior, mode):
    attack = dggi(prior, mode=mode, rate=100.0, zeta=100.0, weight=1e3, polish=0)
    found = replace(attack, schedule="constant")(granted)
    alone = replace(sme(), iterations=FIRST, schedule="constant")(granted)
    torch.testing.assert_close(found.images, alone.images)
    assert found.notes["prior_trust"] == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", ["sme", "nl-sme"])
def test_an_untrained_prior_does_not_explain_the_update_worse_than_the_start(granted, prior, mode, state):
    found = dggi(prior, mode=mode, state=state, kappa=0.9, weight=10.0, slack=0.0, polish=0)(granted)
    alone = replace({"sme": sme, "nl-sme": nl_sme}[state](), iterations=FIRST)(granted)
    kept = torch.allclose(found.images, alone.images)  # with a surrogate that has moved on since
    assert kept or found.l_sim <= 1.02 * alone.l_sim  # the last iteration is not looked at again


class Oracle(nn.Module):
    """Knows the images: whatever it is shown, it says that the rest is noise."""

    def __init__(self, truth: torch.Tensor, signal: torch.Tensor) -> None:
        super().__init__()
        self.truth, self.signal = truth, signal

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> SimpleNamespace:
        abar = self.signal[t + 1].view(-1, 1, 1, 1)
        return SimpleNamespace(sample=(x - abar.sqrt() * self.truth) / (1 - abar).sqrt())


@pytest.mark.parametrize("mode", MODES)
def test_a_prior_that_knows_the_images_finds_them(prior, mode, monkeypatch):
    client = tiny_client()
    assert client.batch.labels.tolist() == sorted(client.batch.labels.tolist())
    signal = read_denoiser(prior).signal
    oracle = Denoiser(Oracle(put_in_frame(client.batch.images, 16), signal), signal, 1, 16)
    monkeypatch.setattr(granting, "read_denoiser", lambda _: oracle)
    seen = tiny_observation(client, auxiliary=True)
    found = replace(dggi(prior, mode=mode, kappa=0.6, weight=10.0), iterations=60)(seen)
    alone = replace(sme(), iterations=60)(seen)
    assert psnr(found.images, client.batch.images) > psnr(alone.images, client.batch.images) + 3


def psnr(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float(-10 * torch.log10((found - truth).square().flatten(1).mean(1)).mean())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("after", [2, 7])
def test_interrupted_and_resumed_equals_undisturbed(granted, prior, mode, after, tmp_path):
    attack = dggi(prior, mode=mode, steps=4)
    whole, watch = attack(granted), Interrupting(after)
    assert attack(granted, watch=watch).status == "interrupted"
    torch.save(watch.state, tmp_path / "state.pt")
    resumed = attack(granted, resume=torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(resumed.images, whole.images)
    assert resumed.l_sim == whole.l_sim
    assert [row["objective"] for row in resumed.history] == [row["objective"] for row in whole.history]


def believing(prior: Path, *, slack: float, **belief: float) -> Interleave:
    """A renewal in the middle of a run."""
    values = {name: torch.tensor(value) for name, value in belief.items()}
    return Interleave(
        denoiser=read_denoiser(prior), steps=5, noise=100, kappa=0.5, slack=slack, belief=Belief(**values)
    )


START = HeadStart(images=torch.tensor(7.0), l_sim=torch.tensor(0.1))


def test_trust_falls_when_following_the_prior_costs_evidence_and_only_then(prior):
    worse, better = Moment(0.5, torch.tensor(0.2)), Moment(0.5, torch.tensor(0.05))

    def after(moment: Moment, trust: float, followed: float) -> tuple[float, float]:
        part = believing(prior, slack=0.0, trust=trust, followed=followed, best=float("inf"), kept=0.0)
        belief = part.belief.after(part.explained(START, moment))
        return float(belief.trust), float(belief.followed)

    assert after(worse, 1.0, followed=1.0) == (0.5, 0.0)
    assert after(worse, 0.5, followed=0.0) == (0.5, 0.0)
    assert after(better, 0.5, followed=0.0) == (0.5, 1.0)
    assert after(better, 0.5, followed=1.0) == (1.0, 1.0)
    assert after(better, 1.0, followed=1.0) == (1.0, 1.0)


def test_what_explained_the_update_best_is_kept(prior):
    part = believing(prior, slack=0.5, trust=1.0, followed=1.0, best=float("inf"), kept=0.0)
    assert [float(value) for value in part.best(START)] == pytest.approx([0.1, 7.0])
    assert part.with_best(lambda: torch.tensor(8.0), START, Moment(0.5, torch.tensor(0.2))) is part
    later = part.with_best(lambda: torch.tensor(9.0), START, Moment(0.5, torch.tensor(0.05)))
    assert [float(value) for value in later.best(START)] == pytest.approx([0.05, 9.0])
    assert not later.explained(START, Moment(0.5, torch.tensor(0.08)))
    known, last = Known.of(tiny_observation(), torch.device("cpu")), torch.tensor(10.0)
    assert later.last_word(last, START, known, Moment(1.0, torch.tensor(0.09))) == (later, 10)
    distrusting, x = later.last_word(last, START, known, Moment(1.0, torch.tensor(0.11)))
    assert x == 9
    assert float(distrusting.belief.trust) == 0


@pytest.mark.parametrize("mode", MODES)
def test_the_prior_cleans_the_result_of_the_noise_it_is_taken_to_hold(granted, prior, mode):
    rough, polished = (dggi(prior, mode=mode, steps=4, polish=polish)(granted) for polish in (0, 30))
    denoiser = read_denoiser(prior)
    framed = put_in_frame(rough.images, denoiser.side)
    cleaned = denoiser.clean(denoiser.noised(framed, 30, torch.zeros_like(framed)), 30).clamp(-1, 1)
    torch.testing.assert_close(polished.images, take_from_frame(cleaned, (1, 12, 12)), rtol=0, atol=1e-5)


def test_the_times_fall_in_a_straight_line_to_no_noise(prior):
    part = replace(believing(prior, slack=0.0, trust=1.0, followed=0.0, best=1.0, kept=0.0), steps=3, noise=400)
    assert part.at == (0.25, 0.5, 0.75, 1.0)
    assert [part.time(progress) for progress in part.at] == [300, 200, 100, -1]


def test_the_score_is_the_distance_to_what_the_prior_sees():
    known = Known.of(tiny_observation(auxiliary=True), torch.device("cpu"))
    x = torch.zeros(known.n, *known.shape)
    clean = known.normalisation.apply(known.normalisation.invert(x) + 0.1)
    score = Score(weight=3.0, trust=torch.tensor(0.5), clean=clean)
    value = score({}, x, Dummy((), torch.zeros(()), None), known, torch.zeros(()))
    assert float(value) == pytest.approx(3 / 2 * 0.5 * 0.2**2, rel=1e-4)


def test_other_images_have_to_be_granted(prior):
    with pytest.raises(InputError, match="not granted") as refused:
        dggi(prior)(tiny_observation())
    assert "auxiliary=True" in str(refused.value)


def test_without_a_prior_it_says_how_to_make_one(granted):
    with pytest.raises(InputError, match="dggi needs a prior") as refused:
        build_attack("dggi", {})(granted)
    assert "leakscope prior train" in str(refused.value)


@pytest.mark.parametrize(("images", "words"), [({"colours": 3}, "3 channel"), ({"side": 20}, "32x32, not 16x16")])
def test_a_prior_for_other_images_is_refused(granted, tmp_path, images, words):
    other = tiny_prior(tmp_path / "other", steps=0, **images)
    with pytest.raises(InputError, match=words) as refused:
        dggi(other)(granted)
    assert "1x12x12" in str(refused.value)


@pytest.mark.parametrize("name", ["noise", "polish"])
def test_noise_beyond_the_schedule_is_refused(granted, prior, name):
    with pytest.raises(InputError, match=f"dggi.{name}=1000 is no time of the prior"):
        dggi(prior, **{name: 1000})(granted)


def test_the_place_of_a_prior_is_no_part_of_the_attack(prior, tmp_path):
    copy = shutil.copytree(prior, tmp_path / "copy")
    assert repr(dggi(prior)) == repr(dggi(copy))
