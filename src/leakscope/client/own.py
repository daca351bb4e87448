"""A client of your own: your model, your images, your training settings, audited like any other."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from leakscope.client.training import Client
from leakscope.errors import Finding, Problem, refusal, refuse, refusing, warning
from leakscope.types import ClientBatch, LocalTraining, Normalisation
from leakscope.user_code import import_code, their_code
from leakscope.victims import Victim, fingerprint_of, wrap

LOSSES = ("cross_entropy",)
"""Mean softmax cross-entropy, with class indices or soft targets (so label smoothing and mixup too)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalClient:
    """What a client trains, on what and how. `leakscope audit client.py:client` finds one by its name in a file.

    >>> client = LocalClient(
    ...     model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 2)),
    ...     images=torch.rand(4, 1, 8, 8),
    ...     labels=torch.tensor([0, 1, 1, 0]),
    ...     classes=2,
    ...     training=LocalTraining(epochs=2, batch_size=2, lr=0.1),
    ... )
    >>> client
    LocalClient(Sequential, 4 images of 1x8x8, 2 classes, LocalTraining(epochs=2, batch_size=2, lr=0.1, ...))
    """

    model: Callable[[], nn.Module]
    """Builds the model as the server sends it; its weights are w0, fresh from the seed or trained."""
    images: Tensor
    """(N, C, H, W): float in [0, 1] or uint8, before normalisation."""
    labels: Tensor
    """(N,) class indices, or (N, classes) soft targets that add up to one."""
    classes: int
    training: LocalTraining = field(default_factory=LocalTraining)
    """Epochs, batch size, rate, mode (`train` or `eval`), and the optimiser: SGD with momentum and decay, or Adam."""
    normalisation: Normalisation | None = None
    """What the client does to its images before the model sees them; None is nothing."""
    candidates: Tensor | None = None
    """(K, C, H, W): images of the same kind that the client does not hold; without them nothing can be identified."""
    loss: str = "cross_entropy"
    name: str = "own"

    def __post_init__(self) -> None:
        for attribute in ("images", "labels", "candidates"):
            value = getattr(self, attribute)
            if value is not None and not isinstance(value, Tensor):
                object.__setattr__(self, attribute, torch.as_tensor(value))
        refuse(self._problems())

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def model_name(self) -> str:
        return self._reference.name

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        t, size = self.training, "x".join(map(str, self.shape))
        training = f"LocalTraining(epochs={t.epochs}, batch_size={t.batch_size}, lr={t.lr}, ...)"
        return f"LocalClient({self.model_name}, {len(self)} images of {size}, {self.classes} classes, {training})"

    def client(self, seed: int) -> Client:
        """The private side as every audit knows it."""
        mean, std = (0.0,) * self.shape[0], (1.0,) * self.shape[0]
        batch = ClientBatch(
            images=unit(self.images),
            labels=self.labels.long() if self.labels.dim() == 1 else self.labels.float(),
            classes=self.classes,
            normalisation=self.normalisation or Normalisation(mean, std),
            dataset=self.name,
        )
        return Client(self._victim(seed), batch, self.training, seed)

    def held_out(self) -> Tensor:
        """(K, C, H, W) in [0, 1]; empty where no candidates were given."""
        return unit(self.images)[:0] if self.candidates is None else unit(self.candidates)

    def findings(self) -> Iterator[Finding]:
        """What the audit of this client cannot show."""
        if self.candidates is None:
            yield warning(
                "candidates",
                "there are no other images of the same kind to compare with",
                why="an image is identified when no other one is nearer to its reconstruction; without others none is",
                fix="give LocalClient(candidates=...): images that the client does not hold, a few hundred or more",
            )

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of the content: images, labels, candidates, normalisation, weights, and the model's code."""
        victim, again = self._reference, self._victim(0)
        refuse(_unsteady(victim, again))
        tensors = {"images": self.images, "labels": self.labels, "candidates": self.held_out()}
        return fingerprint_of([repr((self.classes, self.normalisation, victim.fingerprint))], tensors)

    def require_portable(self) -> None:
        """Raise where another process could not be given this client."""
        found = "this client cannot be sent to other processes"
        fix = "define the model's factory at the top of a module (no lambda), or use workers=1"
        with refusing(found, pickle.PicklingError, AttributeError, TypeError, fix=fix):
            pickle.dumps(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_reference"}

    @cached_property
    def _reference(self) -> Victim:
        return self._victim(0)

    def _victim(self, seed: int) -> Victim:
        victim = wrap(self.name, self.model, shape=self.shape, classes=self.classes, seed=seed)
        return Victim(type(victim.module).__name__, victim.module, victim.shape, victim.classes)

    def _problems(self) -> Iterator[Problem]:
        yield from _image_problems("images", self.images)
        if self.candidates is not None:
            yield from _image_problems("candidates", self.candidates)
            if self.candidates.shape[1:] != self.images.shape[1:]:
                yield Problem(f"candidates are {_size(self.candidates)}, images {_size(self.images)}")
        yield from _label_problems(self.labels, len(self.images), self.classes)
        if self.loss not in LOSSES:
            yield Problem(
                f"loss {self.loss!r} is not supported",
                why="every attack differentiates the client's own loss: softmax cross-entropy, mean over the batch",
                fix="cross_entropy; label smoothing and mixup as soft targets, a constant factor as a part of lr",
            )
        channels = self.images.shape[1] if self.images.dim() == 4 else 0
        if self.normalisation is not None and channels and len(self.normalisation.mean) != channels:
            yield Problem(f"the normalisation has {len(self.normalisation.mean)} channels, the images {channels}")


def load_client(reference: str) -> LocalClient:
    """`path/to/file.py:name` or `package.module:name`: a LocalClient, or a function that makes one."""
    place, colon, attribute = reference.rpartition(":")
    if not colon:
        raise refusal(f"{reference!r} names no client", fix="write client.py:client, file and name")
    found = getattr(import_code(place), attribute, None)
    with their_code(reference):
        client = found() if callable(found) else found
    if not isinstance(client, LocalClient):
        kind = "nothing" if found is None else f"a {type(client).__name__}"
        raise refusal(
            f"{attribute!r} in {place} is {kind}", fix=f"write {attribute} = leakscope.LocalClient(...) there"
        )
    return client


def unit(images: Tensor) -> Tensor:
    """uint8 or float images as float in [0, 1]."""
    return images.float() / 255 if images.dtype == torch.uint8 else images.float()


def _unsteady(victim: Victim, again: Victim) -> Iterator[Problem]:
    first, second = victim.module.state_dict(), again.module.state_dict()
    if any(not torch.equal(first[name], second[name]) for name in first):
        yield Problem(
            "the model's factory gives other weights every time",
            why="a run could not be continued, nor its result repeated",
            fix="draw the weights with torch alone (its seed is set), or load them from a file",
        )


def _size(images: Tensor) -> str:
    return f"{images.dtype} of {tuple(images.shape)}"


def _image_problems(what: str, images: Tensor) -> Iterator[Problem]:
    if images.dim() != 4 or images.shape[1] not in (1, 3) or not images.numel():
        fix = "images.permute(0, 3, 1, 2)" if images.dim() == 4 and images.shape[-1] in (1, 3) else ""
        yield Problem(f"{what} are {_size(images)}, not (N, C, H, W) with 1 or 3 channels", fix=fix)
    if images.dtype != torch.uint8 and not images.is_floating_point():
        yield Problem(f"{what} are {images.dtype}", fix="float in [0, 1] or uint8")
    elif images.is_floating_point() and images.numel() and not bool(((images >= 0) & (images <= 1)).all()):
        yield Problem(
            f"{what} go from {float(images.min()):.3g} to {float(images.max()):.3g}, not from 0 to 1",
            why="scores compare pixels, so the images must be given as they are before normalisation",
            fix="pass the images in [0, 1] and normalisation=Normalisation(mean, std)",
        )


def _label_problems(labels: Tensor, n: int, classes: int) -> Iterator[Problem]:
    if classes < 2:
        yield Problem(f"classes = {classes}: a classifier has two or more", fix="classes=2 or more")
    if n == 0:
        return
    if labels.dim() == 1 and len(labels) == n and not labels.is_floating_point():
        if int(labels.min()) < 0 or int(labels.max()) >= classes:
            yield Problem(f"labels go from {int(labels.min())} to {int(labels.max())} with {classes} classes")
    elif labels.dim() == 2 and labels.shape == (n, classes) and labels.is_floating_point():
        if bool((labels < 0).any()) or not torch.allclose(labels.sum(1), torch.ones(n, dtype=labels.dtype), atol=1e-4):
            fix = "labels / labels.sum(1, keepdim=True)"
            yield Problem("soft targets are negative or do not add up to one", fix=fix)
    else:
        fix = f"(N,) whole numbers, or ({n}, {classes}) soft targets"
        yield Problem(f"labels are {_size(labels)} for {n} images", fix=fix)
