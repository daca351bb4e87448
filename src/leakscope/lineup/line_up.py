"""The line-up: can the server tell an image that was trained on from one that was not, from the update alone?"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakscope.attacks.reliability import ZEROS, zeros
from leakscope.errors import InputError
from leakscope.labels import recover_counts
from leakscope.lineup.gram import products
from leakscope.lineup.pool import Pool, Suspects, without_twins
from leakscope.lineup.recognition import Group, Recognition, recognise
from leakscope.lineup.state import CHUNK, State, View
from leakscope.lineup.weighing import Weighing, weigh
from leakscope.observation.firewall import Observation
from leakscope.types import Weights

PATH = (0.25, 0.75)
"""States w0 - s delta at which every suspect's gradient is taken: gradients turn while the client trains."""
MIDDLE = 0.5
"""The state at which the gradients of references are taken."""


@dataclass(frozen=True)
class LineUp:
    """One client's line-up: a score for every image, and how well the scores tell members from others."""

    members: Tensor
    """(m,): scores of the images that were trained on, in standard deviations."""
    others: Tensor
    """(k,): scores of the images that were not."""
    own_site: Tensor | None
    """(k,) bool: which others come from the client's own writers or site."""
    membership: Recognition
    """Members against others, of their own writers or site where there are any."""
    hand: Recognition | None
    """Others of the client's own writers or site against those from elsewhere: the hand, without membership."""
    rounds: tuple[Weighing, ...]
    """What was assumed of each round's update; the scores are their mean."""
    references: int
    twins: int
    """Copies, and look-alikes of members, that left the line-up."""
    labels: str
    """Where the labels come from."""
    seconds: float

    @property
    def groups(self) -> tuple[Group, Group | None]:
        """What counts for membership and for the hand, to pool it with other clients of the same recipe."""
        here, there = _split(self.others, self.own_site)
        return Group(self.members, here), None if there is None else Group(here, there)


def line_up(observation: Observation, pool: Pool, *, device: torch.device | str = "cpu") -> LineUp:
    """Score every image of the pool by its share in the update. The scores know nothing of who is a member."""
    began = time.perf_counter()
    pool, twins = without_twins(pool)
    rounds = (observation, *observation.more)
    weighings = tuple(_weighed(each, pool, torch.device(device)) for each in rounds)
    scores = torch.stack([weighing.scores for weighing in weighings]).mean(0)
    members, others = scores[: len(pool.members)], scores[len(pool.members) :]
    here, there = _split(others, pool.own_site)
    parts = [part for part in (pool.members, pool.others, pool.references) if part is not None]
    return LineUp(
        members=members,
        others=others,
        own_site=pool.own_site,
        membership=recognise([Group(members, here)]),
        hand=None if there is None else recognise([Group(here, there)]),
        rounds=weighings,
        references=0 if pool.references is None else len(pool.references),
        twins=twins,
        labels="given" if all(part.labels is not None for part in parts) else "of the client's, what fits best",
        seconds=time.perf_counter() - began,
    )


def pooled(line_ups: Sequence[LineUp]) -> tuple[Recognition, Recognition | None]:
    """Membership and hand over several clients of one recipe."""
    groups, hands = zip(*(each.groups for each in line_ups), strict=True)
    known = [hand for hand in hands if hand is not None]
    return recognise(groups), recognise(known) if known else None


def _split(others: Tensor, own_site: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The others that members are compared with, and those from elsewhere, where there are both kinds."""
    if own_site is None or bool(own_site.all()) or not bool(own_site.any()):
        return others, None
    return others[own_site], others[~own_site]


def _weighed(seen: Observation, pool: Pool, device: torch.device) -> Weighing:
    """One round. Members and others are one heap from here on."""
    shown = [pool.members, pool.others, *([pool.references] if pool.references is not None else [])]
    x = [seen.normalisation.apply(part.images.float()).to(device) for part in shown]
    states = path(seen, {*PATH, MIDDLE}, torch.cat(x))
    delta = {name: value.to(device) for name, value in seen.delta.items()}
    y = _labels(seen, shown, x, states[MIDDLE], delta)
    suspects, labels = torch.cat(x[:2]), torch.cat(y[:2])
    views = [View(states[s], suspects, labels) for s in PATH]
    if len(shown) > 2:
        views.append(View(states[MIDDLE], x[2], y[2]))
    masks = visible(delta)
    return weigh(
        products(views, delta, masks=masks),
        suspects=len(suspects),
        states=len(PATH),
        energy=sum(float(value.cpu().double().square().sum()) for value in delta.values()),
        coordinates=sum(int(masks[name].sum()) if name in masks else value.numel() for name, value in delta.items()),
    )


def visible(delta: Weights) -> dict[str, Tensor]:
    """Which coordinates count, by tensor: those that are not zero, in an update whose small values were suppressed."""
    if max(zeros(value) for value in delta.values()) <= ZEROS:
        return {}
    return {name: value != 0 for name, value in delta.items() if not bool(value.all())}


def path(seen: Observation, points: Iterable[float], x: Tensor) -> dict[float, State]:
    """The model at the states w0 - s delta. In train mode its batch norm takes the statistics of all images x shown."""
    module = copy.deepcopy(seen.victim.module).to(x.device).eval().requires_grad_(False)
    found = {}
    for s in points:
        weights = {name: (value - s * seen.delta[name]).to(x.device) for name, value in seen.w0.items()}
        buffers = {name: value.to(x.device) for name, value in seen.buffers.items()}
        if seen.training.mode == "train":
            buffers = _statistics(module, weights, x)
        found[s] = State(module, weights, buffers)
    return found


def _statistics(module: nn.Module, weights: Weights, x: Tensor) -> dict[str, Tensor]:
    """The buffers of batch norm for the images x (n, C, H, W), as the mean over chunks."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.reset_running_stats()
            part.momentum = None
            part.train()
    with torch.no_grad():
        for images in torch.split(x, CHUNK):
            torch.func.functional_call(module, dict(weights), (images,))
    module.eval()
    return {name: value.clone() for name, value in module.named_buffers()}


def _labels(
    seen: Observation, shown: Sequence[Suspects], x: Sequence[Tensor], state: State, delta: Weights
) -> list[Tensor]:
    """The labels of each part: those given, else each image's best fit among the client's.

    A label fits by the slope of the image's loss along the update, compared with that of all images for that label.
    """
    if all(part.labels is not None for part in shown):
        return [part.labels.to(state.device) for part in shown if part.labels is not None]
    present = client_labels(seen)
    slopes = [state.label_slopes(delta, images).cpu()[:, present] for images in x]
    spread, mean = torch.std_mean(torch.cat(slopes), dim=0)
    found = []
    for part, own in zip(shown, slopes, strict=True):
        best = present[((own - mean) / spread).argmax(1)] if part.labels is None else part.labels
        found.append(best.to(state.device))
    return found


def client_labels(seen: Observation) -> Tensor:
    """(L,): the classes that the client holds, as granted, or counted from the update, or any of them."""
    if seen.labels is not None:
        counts = seen.labels.sum(0) if seen.labels.dim() == 2 else torch.bincount(seen.labels)
    else:
        try:
            counts = recover_counts(seen.victim, seen.w0, seen.delta, seen.training, seen.n)
        except InputError:  # no linear layer at the end, or an optimiser that hides the size of the gradient
            counts = torch.ones(seen.victim.classes)
    return counts.nonzero().flatten()
