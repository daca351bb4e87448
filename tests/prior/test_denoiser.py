"""The denoiser: its laws, and diffusers' own schedulers as the reference."""

from types import SimpleNamespace

import diffusers
import pytest
import torch
from torch import nn

from leakscope.prior.denoiser import CLEAN, Denoiser, sample
from leakscope.prior.folder import as_denoiser, read_denoiser

SIZE = (3, 1, 16, 16)
SCHEDULE = {"num_train_timesteps": 1000, "beta_start": 1e-4, "beta_end": 0.02}


class Told(nn.Module):
    """Predicts the noise that it was told."""

    def __init__(self, noise: torch.Tensor) -> None:
        super().__init__()
        self.noise, self.config = noise, SimpleNamespace(in_channels=1, sample_size=16)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> SimpleNamespace:
        assert x.shape == self.noise.shape
        assert t.shape == (len(x),)
        return SimpleNamespace(sample=self.noise)


def told(noise: torch.Tensor) -> Denoiser:
    return as_denoiser(Told(noise), diffusers.DDPMScheduler(**SCHEDULE))


@pytest.mark.parametrize("t", [0, 100, 400, 999])
def test_an_image_comes_back_where_the_noise_is_known(t):
    x, noise = torch.rand(SIZE) * 2 - 1, torch.randn(SIZE)
    denoiser = told(noise)
    torch.testing.assert_close(denoiser.clean(denoiser.noised(x, t, noise), t), x, atol=2e-4, rtol=1e-3)


def test_without_noise_nothing_is_denoised(prior):
    denoiser = read_denoiser(prior)
    x, noise = torch.rand(SIZE) * 2 - 1, torch.randn(SIZE)
    assert torch.equal(denoiser.noised(x, CLEAN, noise), x)
    assert torch.equal(denoiser.clean(x, CLEAN), x)
    first = denoiser.clean(denoiser.noised(x, 0, noise), 0)
    bound = 0.0101 * (noise - denoiser.predict(denoiser.noised(x, 0, noise), 0)).abs()
    assert bool(((first - x).abs() <= bound + 1e-5).all())


@pytest.mark.parametrize("t", [0, 100, 200, 300, 400])
def test_noise_is_added_as_diffusers_adds_it(t):
    x, noise = torch.rand(SIZE), torch.randn(SIZE)
    scheduler = diffusers.DDPMScheduler(**SCHEDULE)
    expected = scheduler.add_noise(x, noise, torch.full((3,), t))
    torch.testing.assert_close(told(noise).noised(x, t, noise), expected)


@pytest.mark.parametrize(("t", "to"), [(980, 960), (400, 380), (20, 0), (0, CLEAN)])
def test_a_step_is_that_of_ddim(t, to):
    guess, x = torch.randn(SIZE), torch.randn(SIZE)
    scheduler = diffusers.DDIMScheduler(**SCHEDULE, clip_sample=True, set_alpha_to_one=True)
    scheduler.set_timesteps(50)
    expected = scheduler.step(guess, t, x, eta=0.0, use_clipped_model_output=True).prev_sample
    torch.testing.assert_close(told(guess).step(x, t, to), expected, atol=1e-5, rtol=1e-4)


def test_the_way_back_does_not_go_through_the_network(prior):
    denoiser = read_denoiser(prior)
    x = torch.randn(SIZE, requires_grad=True)
    denoiser.clean(x, 300).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full(SIZE, float(1 / denoiser.signal[301].sqrt())))


def test_samples_are_images_and_the_seed_s(prior):
    denoiser, seen = read_denoiser(prior), []
    first, again = (
        sample(denoiser, 2, generator=torch.Generator().manual_seed(3), steps=4, tell=seen.append) for _ in range(2)
    )
    assert first.shape == (2, 1, 16, 16)
    assert float(first.abs().max()) <= 1
    assert torch.equal(first, again)
    assert seen == [1, 2, 3, 4] * 2
