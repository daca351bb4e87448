"""Inner products of single images' loss gradients, for any model, without ever holding the gradients.

With g_i = d loss(f_w(x_i), y_i) / dw, the Gram matrix <g_i, g_j> and the products <g_i, delta> with the update are sums
over the tensors of the model. What flows into a linear layer or a convolution, a_i (L, K), and the loss gradient of
what flows out of it, d_i (L, O), at its L places, give the share of its weight:

    <g_i, g_j> = sum_lm <a_il, a_jm> <d_il, d_jm>      nothing as large as the layer is ever made
               = <d_i^T a_i, d_j^T a_j>                a few rows of the layer at a time

whichever is cheaper. All other tensors (norms, tokens, positions), and layers whose gradient the tape does not explain,
go the general way: the gradients of that tensor alone, for a few images at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from leakscope.lineup.state import CHUNK, State, View
from leakscope.types import Weights

Masks = Mapping[str, Tensor]
"""By tensor, which of its coordinates count (bool, of its shape); a tensor without a mask counts as a whole."""
BUDGET = 32 * 1024 * 1024
"""Numbers of four bytes that any one intermediate result may take: 128 MB."""
EXPLAINED = 1e-3
"""Relative error up to which a layer's gradient, put together from its tape, is that of the model."""
GHOST = 3.0
"""How many times dearer an operation of the first form is: its two matrices are multiplied entry by entry as well."""


@dataclass(frozen=True)
class Products:
    """Inner products of n images' gradients, in float64; those of a single tensor add up to those of the model."""

    gram: Tensor
    """(n, n): <g_i, g_j>."""
    slopes: Tensor
    """(n,): <g_i, delta>."""

    def __add__(self, other: Products) -> Products:
        return Products(self.gram + other.gram, self.slopes + other.slopes)


def empty(size: int) -> Products:
    """Sums start from here, on the CPU: not all devices have doubles."""
    return Products(torch.zeros(size, size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64))


@dataclass(frozen=True)
class Layer:
    """A linear layer or a convolution: the names of its tensors, and what one image leaves on its tape."""

    part: nn.Linear | nn.Conv2d
    weight: str
    bias: str | None
    numbers: int
    """How many numbers an image's tape holds, in and out together."""

    @property
    def groups(self) -> int:
        return 1 if isinstance(self.part, nn.Linear) else self.part.groups

    def columns(self, inputs: Tensor) -> Tensor:
        """What flows in -> a (n, G, K, L): the K numbers of a group that meet the weights at each of L places."""
        if isinstance(self.part, nn.Linear):
            return inputs.reshape(len(inputs), 1, -1, inputs.shape[-1]).transpose(2, 3)
        conv = self.part
        assert not isinstance(conv.padding, str)
        patches = nn.functional.unfold(
            inputs, conv.kernel_size, dilation=conv.dilation, padding=conv.padding, stride=conv.stride
        )
        return patches.view(len(inputs), self.groups, -1, patches.shape[-1])

    def outputs(self, d: Tensor) -> Tensor:
        """The loss gradient of what flows out -> d (n, G, O, L)."""
        if isinstance(self.part, nn.Linear):
            return d.reshape(len(d), 1, -1, d.shape[-1]).transpose(2, 3)
        return d.reshape(len(d), self.groups, self.part.out_channels // self.groups, -1)

    def gradients(self, inputs: Tensor, d: Tensor) -> Tensor:
        """(n, weights): every image's gradient of the layer's weight."""
        return torch.einsum("ngol,ngkl->ngok", self.outputs(d), self.columns(inputs)).flatten(1)


@dataclass(frozen=True)
class Tape:
    """What n images left at one layer: what flowed in, and the loss gradients of what flowed out."""

    layer: Layer
    inputs: Tensor
    d: Tensor

    def __len__(self) -> int:
        return len(self.d)

    def block(self, start: int, size: int, g: int) -> tuple[Tensor, Tensor]:
        """a (b, K, L) and d (b, O, L) of a block of images, in one group of channels."""
        some = slice(start, start + size)
        return self.layer.columns(self.inputs[some])[:, g], self.layer.outputs(self.d[some])[:, g]


def products(views: Sequence[View], delta: Weights, *, masks: Masks | None = None, budget: int = BUDGET) -> Products:
    """Inner products of the gradients in all views, one after the other, with each other and with the update."""
    masks = masks or {}
    size = sum(len(view.x) for view in views)
    total = empty(size)
    left = dict.fromkeys(delta)
    for layers in _groups(taped_layers(views[0]), size, budget):
        for layer, (weight, bias) in _record(views, layers).items():
            change, mask = delta[layer.weight], masks.get(layer.weight)
            if isinstance(weight, Tape):
                total += _from_tape(weight, change, mask, budget)
            else:
                total += _from_rows(weight, change, mask)
            left.pop(layer.weight)
            if layer.bias is not None:
                total += _from_rows(bias, delta[layer.bias], masks.get(layer.bias))
                left.pop(layer.bias)
    for name in left:
        total += _general(views, name, delta[name], masks.get(name), budget)
    return total


def taped_layers(view: View) -> list[Layer]:
    """The layers that a pass runs through once, and whose gradient on two images is what the tape says it is."""
    state, x, y = view.state, view.x[:2], view.y[:2]
    leaves = {name: value.detach().requires_grad_() for name, value in state.weights.items()}
    candidates = _candidates(state)
    with _listening(candidates) as heard, torch.enable_grad():
        loss = state.losses(leaves, x, y).sum()
    once = {layer: calls[0] for layer, calls in heard.items() if len(calls) == 1}
    outs = [output for _, output in once.values()]
    slopes = torch.autograd.grad(loss, [*outs, *leaves.values()], allow_unused=True, materialize_grads=True)
    truth = dict(zip(leaves, slopes[len(outs) :], strict=True))
    found = []
    for (layer, (inputs, output)), d in zip(once.items(), slopes, strict=False):
        if len(inputs) == len(output) == len(x):
            mine, whole = layer.gradients(inputs.detach(), d).sum(0), truth[layer.weight].flatten()
            if float((mine - whole).norm()) <= EXPLAINED * float(whole.norm()):
                numbers = (inputs.numel() + output.numel()) // len(x)
                bias = layer.bias if layer.bias in state.weights else None
                found.append(Layer(layer.part, layer.weight, bias, numbers))
    return found


def _candidates(state: State) -> list[Layer]:
    found = []
    for name, part in state.module.named_modules():
        plain = isinstance(part, nn.Conv2d) and part.padding_mode == "zeros" and not isinstance(part.padding, str)
        if isinstance(part, nn.Linear) or plain:
            dot = f"{name}." if name else ""
            found.append(Layer(part, f"{dot}weight", f"{dot}bias", 0))
    return [layer for layer in found if layer.weight in state.weights]


def _record(views: Sequence[View], layers: Sequence[Layer]) -> dict[Layer, tuple[Tape | Tensor, Tensor]]:
    """Every image of every view once through the model and back.

    By layer: the tape, or the gradients of the weight (n, weights) where they are smaller; those of the bias (n, O).
    """
    heard: dict[Layer, list[tuple[Tensor, Tensor, Tensor]]] = {layer: [] for layer in layers}
    for view in views:
        for images, labels in zip(torch.split(view.x, CHUNK), torch.split(view.y, CHUNK), strict=True):
            for layer, inputs, d in _pass(view.state, layers, images, labels):
                bias = layer.outputs(d).sum(3).flatten(1)
                small = layer.part.weight.numel() < layer.numbers
                heard[layer].append((layer.gradients(inputs, d) if small else inputs, d[:0] if small else d, bias))
    found: dict[Layer, tuple[Tape | Tensor, Tensor]] = {}
    for layer in layers:
        first, d, bias = (torch.cat(parts) for parts in zip(*heard.pop(layer), strict=True))
        found[layer] = (Tape(layer, first, d) if len(d) else first), bias
    return found


def _pass(state: State, layers: Sequence[Layer], x: Tensor, y: Tensor) -> Iterator[tuple[Layer, Tensor, Tensor]]:
    """What flowed into each layer, and the loss gradient of what flowed out."""
    leaves = {layer.weight: state.weights[layer.weight].detach().requires_grad_() for layer in layers}
    with _listening(layers) as heard, torch.enable_grad():
        loss = state.losses(leaves, x, y).sum()
    slopes = torch.autograd.grad(loss, [heard[layer][0][1] for layer in layers])
    for layer, d in zip(layers, slopes, strict=True):
        yield layer, heard[layer][0][0].detach(), d


@contextmanager
def _listening(layers: Sequence[Layer]) -> Iterator[dict[Layer, list[tuple[Tensor, Tensor]]]]:
    """Input and output of every call of the layers; a copy goes on, which the model may change in place."""
    heard: dict[Layer, list[tuple[Tensor, Tensor]]] = {layer: [] for layer in layers}

    def listen(layer: Layer) -> torch.utils.hooks.RemovableHandle:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            heard[layer].append((inputs[0], output))
            return output.clone()

        return layer.part.register_forward_hook(hook)

    handles = [listen(layer) for layer in layers]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


def _groups(layers: Sequence[Layer], rows: int, budget: int) -> Iterator[list[Layer]]:
    """Layers whose tapes fit the budget together."""
    group: list[Layer] = []
    size = 0
    for layer in layers:
        size += (own := rows * min(layer.numbers, layer.part.weight.numel()))
        if group and size > budget:
            yield group
            group, size = [], own
        group.append(layer)
    if group:
        yield group


def _from_rows(rows: Tensor, delta: Tensor, mask: Tensor | None) -> Products:
    """From the gradients (n, weights) themselves."""
    if mask is not None:
        rows, delta = rows[:, mask.flatten()], delta[mask]
    return Products((rows @ rows.T).cpu().double(), (rows @ delta.flatten()).cpu().double())


def _from_tape(tape: Tape, delta: Tensor, mask: Tensor | None, budget: int) -> Products:
    groups = tape.layer.groups
    (_, k, places), o, n = tape.block(0, 1, 0)[0].shape, len(delta) // groups, len(tape)
    total = empty(n)
    for g, change in enumerate(delta.view(groups, o, k)):
        if mask is None and GHOST * places * places * (k + o) < k * o:
            slopes = [_along(change, *tape.block(start, CHUNK, g)) for start in range(0, n, CHUNK)]
            total += Products(_places_by_places(tape, g, budget), torch.cat(slopes))
            continue
        for rows in torch.split(torch.arange(o, device=delta.device), max(1, min(o, budget // (n * k)))):
            part = None if mask is None else mask.view(groups, o, k)[g, rows]
            total += _from_rows(_rows(tape, g, rows), change[rows], part)
    return total


def _along(change: Tensor, a: Tensor, d: Tensor) -> Tensor:
    """(b,): <d_i^T a_i, change>."""
    return ((change @ a) * d).sum((1, 2)).cpu().double()


def _places_by_places(tape: Tape, g: int, budget: int) -> Tensor:
    """(n, n): sum_lm <a_il, a_jm> <d_il, d_jm>, for a block of i and a block of j at a time."""
    n, (_, k, places) = len(tape), tape.block(0, 1, g)[0].shape
    size = max(1, min(n, int((budget / 2) ** 0.5 / places), budget // (4 * places * k)))

    def block(start: int) -> tuple[Tensor, Tensor]:
        a, d = tape.block(start, size, g)
        return a.transpose(1, 2).flatten(0, 1), d.transpose(1, 2).flatten(0, 1)

    total = torch.zeros(n, n, dtype=torch.float64)
    for i in range(0, n, size):
        a, d = block(i)
        for j in range(i, n, size):
            b, e = (a, d) if i == j else block(j)
            both = (a @ b.T).mul_(d @ e.T).view(len(a) // places, places, len(b) // places, places)
            share = both.sum((1, 3)).cpu().double()
            total[i : i + size, j : j + size] = share
            total[j : j + size, i : i + size] = share.T
    return total


def _rows(tape: Tape, g: int, rows: Tensor) -> Tensor:
    """(n, rows K): some rows of every image's gradient."""
    blocks = (tape.block(start, CHUNK, g) for start in range(0, len(tape), CHUNK))
    return torch.cat([(d[:, rows] @ a.transpose(1, 2)).flatten(1) for a, d in blocks])


def _general(views: Sequence[View], name: str, delta: Tensor, mask: Tensor | None, budget: int) -> Products:
    """From the gradients of one tensor, for two blocks of images at a time."""
    most = max(1, budget // (2 * delta.numel()))
    blocks = [
        (view.state, *pair)
        for view in views
        for pair in zip(torch.split(view.x, most), torch.split(view.y, most), strict=True)
    ]
    ends = torch.tensor([0, *(len(x) for _, x, _ in blocks)]).cumsum(0).tolist()
    places = [slice(start, end) for start, end in pairwise(ends)]
    total = empty(ends[-1])
    count = delta.new_ones(delta.numel()) if mask is None else mask.flatten().to(delta)
    for one, (state, x, y) in enumerate(blocks):
        left, here = state.single_gradients(name, x, y) * count, places[one]
        total.slopes[here] = (left @ delta.flatten()).cpu().double()
        for other, (state_there, x_there, y_there) in enumerate(blocks[one:], one):
            right = left if other == one else state_there.single_gradients(name, x_there, y_there)
            share = (left @ right.T).cpu().double()
            total.gram[here, places[other]] = share
            total.gram[places[other], here] = share.T
    return total
