"""The walk over the tensors in a composition."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from leakscope.attacks.known import Known
from leakscope.attacks.parts import SCRATCH, named_tensors, with_tensors
from scenes import tiny_observation

ONE, TWO, THREE = (torch.tensor(float(k)) for k in (1, 2, 3))


@dataclass(frozen=True)
class Inner:
    value: Tensor | None
    weight: float = 2.0


@dataclass(frozen=True)
class Outer:
    parts: tuple[Inner, ...]
    more: Mapping[str, Tensor]
    net: nn.Module
    tape: dict[str, Tensor] = field(metadata=SCRATCH)


OUTER = Outer((Inner(ONE), Inner(None)), {"b": TWO}, nn.Linear(2, 2), {"seen": THREE})


def test_every_tensor_has_a_place_but_not_those_of_modules_and_scratch_space():
    assert dict(named_tensors(OUTER)) == {"parts.0.value": ONE, "more.b": TWO}


def test_what_is_not_replaced_is_not_copied():
    assert with_tensors(OUTER, {}) is OUTER
    same = with_tensors(OUTER, {"more.b": THREE})
    assert same.more == {"b": THREE}
    assert (same.parts, same.net, same.tape) == (OUTER.parts, OUTER.net, OUTER.tape)
    assert OUTER.more == {"b": TWO}


def test_a_place_that_was_empty_can_be_filled():
    filled = with_tensors(OUTER, {"parts.1.value": THREE})
    assert filled.parts == (OUTER.parts[0], Inner(THREE))


def test_all_that_is_known_of_a_client_is_found():
    known = Known.of(tiny_observation(), torch.device("cpu"))
    found = dict(named_tensors(known))
    assert {"w0", "delta", "labels"} <= found.keys()
    doubled = with_tensors(known, {name: 2 * value for name, value in found.items()})
    assert torch.equal(doubled.delta, 2 * known.delta)
    assert doubled.module is known.module
    assert doubled.tape is known.tape
