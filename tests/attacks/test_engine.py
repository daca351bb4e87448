"""The one loop."""

import math
from dataclasses import replace

import pytest
import torch

from leakscope.attacks.descent import Descent
from leakscope.attacks.engine import Attack, best_of
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Calibrated
from leakscope.attacks.parts import named_tensors
from leakscope.attacks.recipes import ig, nl_sme, sme, span_sme
from leakscope.attacks.surrogate import Bezier, Linear
from leakscope.client.training import train
from leakscope.defenses import parse_defense
from leakscope.observation.firewall import observe
from leakscope.types import Knowledge
from scenes import Interrupting, tiny_client, tiny_observation


def short(attack: Attack, **changes: object) -> Attack:
    return replace(attack, iterations=12, history=3, **changes)


def test_nl_sme_with_frozen_control_and_calibration_is_sme_bit_for_bit(observation):
    frozen = short(nl_sme(lr_p=0.0, lr_d=0.0))
    assert isinstance(frozen.surrogate, Bezier)
    assert isinstance(frozen.matching, Calibrated)
    one, two = frozen(observation), short(sme())(observation)
    assert torch.equal(one.images, two.images)
    assert one.l_sim == two.l_sim


def test_sme_with_t_held_at_zero_is_ig(observation):
    held = replace(short(sme()), surrogate=Linear(t=0.0, lr_t=0.0))
    assert torch.equal(held(observation).images, short(ig())(observation).images)


def test_the_ablation_switches_are_sme(observation):
    off = short(nl_sme(trajectory=False, calibration=False))
    assert torch.equal(off(observation).images, short(sme())(observation).images)


def test_same_seed_same_bits_other_seed_other_start(observation):
    attack = short(nl_sme())
    first, second, third = attack(observation), attack(observation), attack(observation, seed=1)
    assert torch.equal(first.images, second.images)
    assert first.history[-1]["objective"] == second.history[-1]["objective"]
    assert not torch.equal(first.images, third.images)


def test_overwriting_the_private_batch_changes_no_reconstruction():
    client = tiny_client()
    update = train(client, client.victim.weights())
    seen = observe(
        update,
        client.victim,
        knowledge=Knowledge(),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )
    before = short(nl_sme())(seen)
    client.batch.images.fill_(0.123)
    client.batch.labels.fill_(0)
    for value in (*update.delta.values(), *update.w0.values()):
        value.zero_()
    after = short(nl_sme())(seen)
    assert torch.equal(before.images, after.images)


@pytest.mark.parametrize("after", [1, 6, 17])
def test_interrupted_and_resumed_equals_undisturbed(observation, after, tmp_path):
    attack = short(nl_sme(), restarts=2)
    whole = attack(observation)
    watch = Interrupting(after)
    part = attack(observation, watch=watch)
    assert part.status == "interrupted"
    assert part.images.shape == whole.images.shape
    torch.save(watch.state, tmp_path / "state.pt")
    resumed = attack(observation, resume=torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(resumed.images, whole.images)
    assert torch.equal(resumed.best, whole.best)
    assert resumed.l_sim == whole.l_sim
    assert [row["objective"] for row in resumed.history] == [row["objective"] for row in whole.history]
    assert resumed.status == "finished"


def test_restarts_keep_the_lowest_objective(observation):
    attack = short(sme())
    single = [attack(observation, seed=0).objective]
    both = replace(attack, restarts=3)(observation).objective
    assert both <= single[0]


def test_history_rows_and_early_stop(observation):
    attack = short(sme())
    rows = attack(observation).history
    assert [row["iteration"] for row in rows] == [3, 6, 9, 12]
    stopped = replace(attack, early_stop=10.0)(observation)
    assert stopped.status == "stopped early"
    assert stopped.iterations == 6


def test_images_are_in_the_box_and_finite(observation):
    found = short(nl_sme())(observation)
    for images in (found.images, found.best):
        assert images.shape == (4, 1, 12, 12)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1


def test_the_attack_leaves_the_model_alone(observation):
    module = observation.victim.module
    before = {name: value.clone() for name, value in module.state_dict().items()}
    short(nl_sme())(observation)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert not any(module._forward_pre_hooks for module in module.modules())


def test_a_single_image_and_step_comes_back_almost_exactly():
    client = tiny_client(n=1, epochs=1, batch_size=1)
    found = replace(ig(lr=0.1), iterations=300)(tiny_observation(client))
    mse = float((found.images - client.batch.images).square().mean())
    assert 10 * torch.log10(torch.tensor(1 / mse)) > 30


def test_soft_labels_are_found_with_the_images():
    client = tiny_client(n=1, epochs=1, batch_size=1)
    update = train(client, client.victim.weights())
    seen = observe(
        update,
        client.victim,
        knowledge=Knowledge(labels="none"),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )
    assert seen.labels is None
    found = replace(ig(lr=0.1), iterations=100)(seen)
    assert found.labels.tolist() == client.batch.labels.tolist()


def test_train_mode_and_buffers_are_handled():
    client = tiny_client(model="resnet8", mode="train")
    found = short(nl_sme())(tiny_observation(client))
    assert bool(found.images.isfinite().all())


def defended(client, text):
    update = parse_defense(text).train(client, client.victim.weights(), seed=0)
    return observe(
        update,
        client.victim,
        knowledge=Knowledge(),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )


@pytest.mark.parametrize("attack", [ig, sme, nl_sme])
def test_clipping_that_does_not_bind_changes_no_bit(client, observation, attack):
    assert torch.equal(short(attack())(defended(client, "clip:bound=100")).images, short(attack())(observation).images)


def test_clipping_changes_no_attack_at_w0_and_moves_the_surrogate_elsewhere(client, observation):
    clipped = defended(client, "clip:bound=0.001")
    torch.testing.assert_close(short(ig())(clipped).images, short(ig())(observation).images, atol=1e-3, rtol=0)
    far = tiny_client(epochs=5, lr=0.2)
    pair = [short(sme())(defended(far, text)).images for text in ("none", "clip:bound=0.001")]
    assert not torch.allclose(*pair, atol=1e-3)


def test_restarts_that_were_broken_off_are_not_finished_though_the_first_was_best(observation):
    """Else the cell would count as done, and the restarts that are left would never run."""
    attack = short(nl_sme(), restarts=3)
    for after in (13, 20, 30):
        assert attack(observation, watch=Interrupting(after)).status == "interrupted"


def test_a_restart_that_diverged_is_never_the_best(observation):
    good = short(sme())(observation)
    lost = replace(good, objective=math.nan)
    assert best_of((lost, good)).objective == best_of((good, lost)).objective == good.objective
    assert best_of((lost, good)).seconds == 2 * good.seconds


def test_a_checkpoint_holds_what_renewals_have_put_into_parts_and_nothing_else(tmp_path):
    observation = tiny_observation(tiny_client(n=6, epochs=4, lr=0.01))
    adapted, known, _ = short(span_sme()).adapt(Known.of(observation, torch.device("cpu")))
    begin = dict(named_tensors(adapted))
    run = Descent(adapted, known, None, seed=0, state=None)
    assert run.pack()["renewed"] == {}
    while run.attack is run.begun:
        run.step()
    state = run.pack()
    assert state["renewed"].keys() == {"priors.1.span", "renewal.times"}
    assert not torch.equal(state["renewed"]["priors.1.span"], begin["priors.1.span"])
    torch.save(state, tmp_path / "state.pt")
    again = Descent(adapted, known, None, seed=0, state=torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(again.objective.priors[1].span, run.objective.priors[1].span)
    assert int(again.attack.renewal.times) == 1
