"""Training a prior: it learns, it goes on where it was interrupted, and it says what it was made from."""

import json

import pytest
import torch

from leakscope.errors import InputError
from leakscope.prior.folder import FACTS, TRAINED_ON, WEIGHTS, read_denoiser
from leakscope.prior.training import CHECKPOINT, Recipe, Training, build_network, fit, store
from priors import public_images, tiny_training


def weights(training: Training) -> list[torch.Tensor]:
    return [*training.network.parameters(), *training.average.shadow_params]


def test_interrupted_and_resumed_equals_undisturbed_bit_for_bit(tmp_path):
    whole = tiny_training()
    assert fit(whole, tmp_path / "whole", steps=4)
    part = tiny_training()
    assert not fit(part, tmp_path / "part", steps=4, stopped=lambda: part.step >= 2)
    assert part.step == 2
    resumed = tiny_training()
    assert fit(resumed, tmp_path / "part", steps=4)
    assert resumed.step == whole.step == 4
    assert resumed.loss == whole.loss
    assert all(torch.equal(one, other) for one, other in zip(weights(resumed), weights(whole), strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(weights(resumed), weights(part), strict=True))


def test_another_training_does_not_go_on_from_it(tmp_path):
    assert fit(tiny_training(), tmp_path, steps=1)
    with pytest.raises(InputError, match="seed = 0, not 1"):
        fit(tiny_training(seed=1), tmp_path, steps=2)
    (tmp_path / CHECKPOINT).write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot be read"):
        fit(tiny_training(), tmp_path, steps=2)


def test_minutes_end_a_training(tmp_path):
    training = tiny_training()
    training.seconds = 59.99
    assert fit(training, tmp_path, steps=1000, minutes=1)
    assert 1 <= training.step < 100


def test_it_learns_what_the_images_have_in_common(tmp_path):
    public = public_images()
    public.pixels[:] = 255  # a white page
    training = Training(public, Recipe(channels=8, batch_size=8, lr=2e-3, decay=0.8, warm_up=1))
    page, noise = torch.ones(4, 1, 16, 16), torch.randn(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))

    def error() -> float:
        denoiser = training.denoiser()
        return float((denoiser.clean(denoiser.noised(page, 300, noise), 300) - page).square().mean())

    before = error()
    assert fit(training, tmp_path, steps=30)
    assert error() < before / 2


def test_the_folder_holds_the_averaged_weights_and_says_what_they_are(tmp_path):
    training = tiny_training()
    fit(training, tmp_path, steps=3)
    store(training, tmp_path)
    x = torch.randn(2, 1, 16, 16)
    kept, trained = (each.predict(x, 5) for each in (read_denoiser(tmp_path), training.denoiser()))
    torch.testing.assert_close(kept, trained, rtol=0, atol=1e-2)  # half precision
    facts = json.loads((tmp_path / FACTS).read_text())
    assert {name: facts[name] for name in ("data", "data_fingerprint", "steps", "images", "side")} == {
        "data": "smooth",
        "data_fingerprint": "0123456789abcdef",
        "steps": 3,
        "images": 20,
        "side": 16,
    }
    assert facts["versions"]["diffusers"]
    assert (tmp_path / TRAINED_ON).is_file()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_cpu_preset_stays_below_ten_megabytes():
    for colours in (1, 3):
        network = build_network(32, colours=colours, side=32)
        assert sum(value.numel() for value in network.parameters()) * 4 < 10e6


def test_the_weights_take_two_bytes_each(prior):
    count = json.loads((prior / FACTS).read_text())["parameters"]
    assert 2 * count < (prior / WEIGHTS).stat().st_size < 2 * count + 100_000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"channels": 12}, "multiple of 8"),
        ({"batch_size": 0}, "batch_size=0 is not at least 1"),
        ({"seed": -1}, "seed=-1 is not at least 0"),
    ],
)
def test_a_recipe_is_checked(settings, words):
    with pytest.raises(InputError, match=words):
        Recipe(**settings)
