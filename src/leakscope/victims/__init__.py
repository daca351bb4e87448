"""The models under audit: the paper's, and any user's `package.module:factory` or `file.py:factory`."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from leakscope.errors import InputError, Problem, refusal, refusing, unknown
from leakscope.types import Weights
from leakscope.user_code import code_fingerprint, import_code, their_code
from leakscope.victims.cnn import cnn_cifar, cnn_mnist, cnn_organ, resnet8
from leakscope.victims.mlp import mlp, mlp_tiny
from leakscope.victims.vit import vit

Shape = tuple[int, int, int]
Factory = Callable[[Shape, int], nn.Module]

MODELS: dict[str, Factory] = {
    "cnn-mnist": cnn_mnist,
    "cnn-cifar": cnn_cifar,
    "cnn-organ": cnn_organ,
    "mlp": mlp,
    "mlp-tiny": mlp_tiny,
    "resnet8": resnet8,
    "vit": vit,
}
WRAPPERS = ("_module.", "_orig_mod.", "module.")
"""What Opacus, torch.compile and DataParallel put before every name."""


@dataclass(frozen=True)
class Victim:
    """An architecture with its input shape (C, H, W) and class count. Weights are always passed in from outside."""

    name: str
    module: nn.Module
    shape: Shape
    classes: int

    @cached_property
    def sizes(self) -> dict[str, torch.Size]:
        """Shape of every trainable tensor, in order; a tensor that is tied to another one has one name."""
        return {name: value.shape for name, value in self.module.named_parameters() if value.requires_grad}

    def buffers(self) -> dict[str, Tensor]:
        """Batch-norm statistics, counters and the like, as the module was built."""
        return {name: value.detach().clone() for name, value in self.module.named_buffers()}

    def weights(self) -> dict[str, Tensor]:
        """A copy of the module's own trainable weights; frozen ones stay in the module."""
        named = dict(self.module.named_parameters())
        return {name: named[name].detach().clone() for name in self.sizes}

    def call(self, weights: Weights, buffers: Weights, x: Tensor) -> Tensor:
        """Logits (N, classes) of normalised images (N, C, H, W) at other weights."""
        logits: Tensor = torch.func.functional_call(self.module, {**weights, **buffers}, (x,))
        return logits

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of its structure, the code of its layers, and the values it was built with."""
        return fingerprint_of([repr(self.module), *sorted(_sources(self.module))], self.module.state_dict())

    def __repr__(self) -> str:
        count = sum(size.numel() for size in self.sizes.values())
        return f"Victim({self.name}, {'x'.join(map(str, self.shape))}, {self.classes} classes, {count:,} weights)"


def build_victim(name: str, *, shape: Shape, classes: int, seed: int = 0) -> Victim:
    """A registered model or a user's factory, freshly initialised from the seed, in eval mode."""
    factory = MODELS[name] if name in MODELS else load_factory(name)
    return wrap(name, partial(factory, shape, classes), shape=shape, classes=classes, seed=seed)


def wrap(name: str, factory: Callable[[], nn.Module], *, shape: Shape, classes: int, seed: int = 0) -> Victim:
    """What a factory builds under the seed, in eval mode, after one empty image went through it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with their_code(f"model {name!r}"):
            module = factory()
    if not isinstance(module, nn.Module):
        raise refusal(f"model {name!r} is a {type(module).__name__}", fix="return a torch.nn.Module")
    module.eval()
    _try_forward(name, module, shape, classes)
    return Victim(name, module, shape, classes)


def fingerprint(name: str, *, shape: Shape, classes: int) -> str | None:
    """16 hex digits of the code and the values of an auditor's own model; None for ours, whose names say it all."""
    if name in MODELS:
        return None
    victim = build_victim(name, shape=shape, classes=classes)
    code = code_fingerprint(name.rpartition(":")[0])
    return hashlib.sha256(f"{code} {victim.fingerprint}".encode()).hexdigest()[:16]


def fingerprint_of(texts: Iterable[str], tensors: Weights) -> str:
    """16 hex digits of texts and named tensors."""
    digest = hashlib.sha256("".join(texts).encode())
    for name, value in tensors.items():
        plain = value.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _sources(module: nn.Module) -> set[str]:
    """The code of every layer class that is not torch's own: another forward pass is another result."""
    kinds = {type(part) for part in module.modules() if not type(part).__module__.startswith("torch.")}
    found = set()
    for kind in kinds:
        try:
            found.add(inspect.getsource(kind))
        except (OSError, TypeError):  # typed at a prompt: the name has to do
            found.add(f"{kind.__module__}.{kind.__qualname__}")
    return found


def restore_buffers(victim: Victim, buffers: Weights) -> None:
    """Put recorded batch-norm statistics into the victim; what does not fit is left as it was built."""
    with torch.no_grad():
        for name, value in victim.module.named_buffers():
            if name in buffers and buffers[name].shape == value.shape:
                value.copy_(buffers[name])


def load_factory(reference: str) -> Factory:
    """`package.module:factory` or `path/to/file.py:factory`. Only ever called with a name the auditor typed."""
    if ":" not in reference:
        raise InputError(unknown_model(reference))
    place, _, attribute = reference.rpartition(":")
    factory = getattr(import_code(place), attribute, None)
    if not callable(factory):
        fix = f"define `def {attribute}(shape, classes) -> torch.nn.Module` there"
        raise refusal(f"{place} has no function {attribute!r}", fix=fix)
    return factory if _wants_shape(factory) else lambda _shape, _classes: factory()


def unknown_model(name: str) -> Problem:
    """A name that is none of ours and names no code either."""
    known = unknown("model", name, MODELS)
    return Problem(known.found, fix=f"{known.fix}; or name your own as package.module:factory")


def _wants_shape(factory: Callable[..., nn.Module]) -> bool:
    """A plain model class takes nothing, or nothing that it must be given; ours take (shape, classes)."""
    parameters = inspect.signature(factory).parameters
    required = [p for p in parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return bool(required) or {"shape", "classes"} <= parameters.keys()


def _try_forward(name: str, module: nn.Module, shape: Shape, classes: int) -> None:
    """One empty image through the net, so that a wrong shape is said before any work starts."""
    fits = f"model {name!r} does not take images of {'x'.join(map(str, shape))}"
    fix = "choose another --model, or build the factory for the shape it is given"
    # a model of the auditor's own raises whatever it likes
    with refusing(fits, Exception, fix=fix), torch.no_grad(), redirect_stdout(sys.stderr):
        out = module(torch.zeros(1, *shape))
    if not isinstance(out, Tensor) or tuple(out.shape) != (1, classes):
        found = f"{tuple(out.shape)[1:]} values per image" if isinstance(out, Tensor) else f"a {type(out).__name__}"
        why, fix = (
            "the audit covers classifiers: one logit per class",
            "let the factory use the class count it is given",
        )
        raise refusal(f"model {name!r} returns {found}, not {classes} logits", why=why, fix=fix)


def differences(weights: Weights, victim: Victim, *, what: str) -> list[Problem]:
    """How named tensors differ from the victim's parameters: names, shapes, types, values that are not finite."""
    fix = f"name the model that was trained with --model (now {victim.name})"
    problems = [Problem(f"{what} lacks {name!r}", fix=fix) for name in victim.sizes if name not in weights]
    for name, value in weights.items():
        size = victim.sizes.get(name)
        if size is None:
            problems.append(Problem(f"{what} has {name!r}, which {victim.name} has not", fix=fix))
        elif value.shape != size:
            found = f"{what}: {name!r} is {tuple(value.shape)}, {victim.name} has {tuple(size)}"
            problems.append(Problem(found, fix=fix))
        elif not value.is_floating_point():
            problems.append(Problem(f"{what}: {name!r} is {value.dtype}", fix="store it as float32"))
        elif not bool(value.isfinite().all()):
            found = f"{what}: {name!r} has values that are not finite"
            problems.append(Problem(found, why="training diverged", fix="lower the client's lr"))
    return problems
