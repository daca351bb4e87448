"""Train a small unconditional DDPM (Ho et al. 2020): |eps - eps_theta(x_t, t)|^2 at random t, averaged weights.

Random numbers of a step depend on the seed and on the step alone, so that a training that was interrupted ends with
the same weights, bit for bit, as one that was not.
"""

from __future__ import annotations

import importlib
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.errors import Problem, refusal, refuse, refusing
from leakscope.files import commit, versions, writing
from leakscope.options import Range, out_of_range
from leakscope.prior.denoiser import Denoiser
from leakscope.prior.folder import as_denoiser, diffusers, write_prior
from leakscope.prior.frame import put_in_frame, side_for
from leakscope.prior.images import PublicImages, digests
from leakscope.types import stream

SCHEMA = 1
CHECKPOINT = "checkpoint.pt"
"""Beside the prior while it is trained, and afterwards: more steps go on from it. It may be deleted."""
CHECKPOINT_SECONDS = 60.0
GROUPS = 8
SMOOTHED = 0.99


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a prior is trained; it determines the weights, with the images and the number of steps."""

    channels: Annotated[int, Range("[8, inf)")] = 32
    """Of the finest level; the others have twice as many."""
    batch_size: Annotated[int, Range("[1, inf)")] = 32
    lr: float = 2e-4
    decay: float = 0.999
    """Of the averaged weights, which are what is kept."""
    warm_up: int = 200
    """Steps in which the rate grows to its full size."""
    seed: Annotated[int, Range("[0, inf)")] = 0

    def __post_init__(self) -> None:
        refuse(out_of_range(self, kind="prior", advice="--{flag} {example}"))
        if self.channels % GROUPS:
            raise refusal(f"prior: channels={self.channels} is no multiple of {GROUPS}", fix="--channels 32")


class Preset(NamedTuple):
    """What a machine can do in about two hours."""

    channels: int
    batch_size: int
    steps: int


def preset(device: str) -> Preset:
    """The preset for a device."""
    return Preset(32, 32, 9_000) if device == "cpu" else Preset(64, 128, 50_000)


def build_network(channels: int, *, colours: int, side: int) -> Any:
    """Two residual blocks per level and attention at 8x8; 1.8 million weights with 32 channels at 32x32."""
    levels = side.bit_length() - 3  # down to 8x8
    return diffusers().UNet2DModel(
        sample_size=side,
        in_channels=colours,
        out_channels=colours,
        layers_per_block=2,
        block_out_channels=(channels, *(2 * channels,) * (levels - 1)),
        down_block_types=(*("DownBlock2D",) * (levels - 1), "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", *("UpBlock2D",) * (levels - 1)),
        norm_num_groups=GROUPS,
        time_embedding_dim=256,
    )


class Training:
    """Network, averaged weights and optimiser after some number of steps."""

    def __init__(self, public: PublicImages, recipe: Recipe, *, device: str = "cpu") -> None:
        library = diffusers()
        averaging = importlib.import_module("diffusers.training_utils").EMAModel
        self.public, self.recipe, self.device = public, recipe, torch.device(device)
        self.side = side_for(public.shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            network = build_network(recipe.channels, colours=public.shape[0], side=self.side)
        self.network = network.to(self.device, memory_format=torch.channels_last)  # a tenth faster on a CPU
        self.scheduler = library.DDPMScheduler(num_train_timesteps=1000, beta_start=1e-4, beta_end=0.02)
        self.average = averaging(self.network.parameters(), decay=recipe.decay)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=recipe.lr)
        self.step, self.seconds, self.loss = 0, 0.0, 0.0

    def advance(self) -> None:
        """One step on images, times and noise that the seed and the step determine."""
        began = time.perf_counter()
        recipe, draw = self.recipe, stream(self.step, f"prior {self.recipe.seed}")
        x = self._batch(draw)
        noise = torch.randn(x.shape, generator=draw).to(x)
        t = torch.randint(self.scheduler.config.num_train_timesteps, (len(x),), generator=draw).to(self.device)
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.lr * min(1.0, (self.step + 1) / recipe.warm_up)
        self.optimiser.zero_grad()
        loss = functional.mse_loss(self.network(self.scheduler.add_noise(x, noise, t), t).sample, noise)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.average.step(self.network.parameters())
        now = float(loss.detach())
        self.loss = now if self.step == 0 else SMOOTHED * self.loss + (1 - SMOOTHED) * now
        self.step += 1
        self.seconds += time.perf_counter() - began

    def _batch(self, draw: torch.Generator) -> Tensor:
        """(B, C, S, S) in [-1, 1]; photographs are flipped at random, writing and scans are not."""
        chosen = torch.randint(len(self.public), (self.recipe.batch_size,), generator=draw)
        x = put_in_frame(self.public.pixels[chosen].float() / 255, self.side)
        if self.public.shape[0] == 3:
            flipped = torch.rand(len(x), generator=draw) < 0.5
            x[flipped] = x[flipped].flip(3)
        return x.to(self.device)

    def averaged(self) -> Any:
        """A network with the averaged weights."""
        network = diffusers().UNet2DModel.from_config(self.network.config).to(self.device)
        self.average.copy_to(network.parameters())
        return network.eval().requires_grad_(False)

    def denoiser(self) -> Denoiser:
        """The averaged network as a denoiser."""
        denoiser = as_denoiser(self.averaged(), self.scheduler)
        return denoiser.to(next(self.network.parameters()))

    def pack(self) -> dict[str, Any]:
        return {
            "facts": self._identity(),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "progress": (self.step, self.seconds, self.loss),
        }

    def unpack(self, state: dict[str, Any], *, source: Path) -> None:
        """Go on from a checkpoint of the same training."""
        mine, theirs = self._identity(), state["facts"]
        odd = [f"{name} = {theirs.get(name)}, not {value}" for name, value in mine.items() if theirs.get(name) != value]
        why, fix = "weights of two trainings would be mixed", "choose another --out"
        refuse(Problem(f"{source} is from a training with {each}", why, fix) for each in odd)
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self.average.to(self.device)
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds, self.loss = state["progress"]

    def _identity(self) -> dict[str, Any]:
        public = self.public
        data = {"data": public.data, "data_fingerprint": public.fingerprint, "avoided": public.avoided}
        return {**asdict(self.recipe), **data}

    def facts(self) -> dict[str, Any]:
        """What prior.json says."""
        return {
            "schema_version": SCHEMA,
            **self._identity(),
            "images": len(self.public),
            "image_shape": list(self.public.shape),
            "side": self.side,
            "steps": self.step,
            "loss": round(self.loss, 5),
            "seconds": round(self.seconds, 1),
            "parameters": sum(value.numel() for value in self.network.parameters()),
            "commit": commit(),
            "versions": {**versions(), "diffusers": str(diffusers().__version__)},
        }


def fit(
    training: Training,
    out: Path,
    *,
    steps: int,
    minutes: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[Training], object] = lambda _: None,
) -> bool:
    """Train up to `steps` steps in all, or for as long as `minutes` in all allow; False where it was interrupted.

    A checkpoint in `out` is where it begins; it leaves one about every minute, and one at the end.
    """
    place, kept = out / CHECKPOINT, time.monotonic()
    if place.exists():
        training.unpack(_read(place), source=place)
    while training.step < steps and not (minutes is not None and training.seconds >= 60 * minutes) and not stopped():
        training.advance()
        tell(training)
        if time.monotonic() - kept >= CHECKPOINT_SECONDS:
            _keep(training, place)
            kept = time.monotonic()
    _keep(training, place)
    return not stopped()


def store(training: Training, out: Path) -> None:
    """The prior folder of a training as it stands; its weights in half precision, which denoise as well."""
    facts, trained_on = training.facts(), digests(training.public.pixels)
    network = torch.nn.Module.half(training.averaged().cpu())  # diffusers' own warns of casts
    write_prior(out, network, training.scheduler, facts, trained_on)


def _keep(training: Training, place: Path) -> None:
    with writing(place) as aside:
        torch.save(training.pack(), aside)


def _read(place: Path) -> dict[str, Any]:
    broken = (OSError, RuntimeError, EOFError, LookupError, ValueError, pickle.UnpicklingError)
    fix = "delete it and train again, or choose another --out"
    with refusing(f"the checkpoint {place} cannot be read", *broken, fix=fix):
        state: dict[str, Any] = torch.load(place, weights_only=True)
    return state
