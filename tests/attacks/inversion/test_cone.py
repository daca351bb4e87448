"""Feature vectors as extreme rays."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from leakscope.attacks.inversion.cone import PATIENCE, Cone, Search
from leakscope.attacks.span import row_space
from leakscope.types import stream

ROWS, FEATURES, IMAGES = 30, 400, 12


def mixture(*, noise: float = 0.0, active: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """A (N, F) behind a ReLU, dW = C A and db = C 1, with as much noise as a part of dW's own size."""
    draw = stream(0, "mixture")
    shared = torch.randn(FEATURES, generator=draw, dtype=torch.double)
    own = torch.randn(IMAGES, FEATURES, generator=draw, dtype=torch.double)
    a = torch.relu(shared + own + active)
    c = torch.randn(ROWS, IMAGES, generator=draw, dtype=torch.double)
    dW = c @ a
    dW += noise * dW.std() * torch.randn(dW.shape, generator=draw, dtype=torch.double)
    return a, dW, c.sum(1)


def cone(a: Tensor, dW: Tensor, db: Tensor) -> Cone:
    zeros, scale = float((a == 0).double().mean()), float(a.square().mean().sqrt())
    return Cone.of(dW, db, row_space(dW, IMAGES)[0], zeros=zeros, scale=scale)


def searched(cone: Cone, search: Search | None = None) -> Search:
    search = search or Search(torch.zeros(0, IMAGES, dtype=torch.double))
    while not search.over:
        search = search.further(cone, 0)
    return search


def cosines(found: Tensor, a: Tensor) -> Tensor:
    """(N,): how near the nearest of those found is to each feature vector."""
    unit = torch.nn.functional.normalize
    return (unit(a) @ unit(found).T).max(1).values


def test_every_feature_vector_is_found_with_its_size():
    a, dW, db = mixture()
    seen = cone(a, dW, db)
    found = seen.features(searched(seen).found)
    assert len(found) == IMAGES
    size = a.square().mean().sqrt()
    assert float((found[torch.cdist(a, found).argmin(1)] - a).abs().max() / size) < 0.01


def test_drift_is_forgiven():
    a, dW, db = mixture(noise=0.003)
    seen = cone(a, dW, db)
    found = seen.features(searched(seen).found)
    assert len(found) == IMAGES
    assert float(cosines(found, a).min()) > 0.999


def test_the_vertex_is_the_optimum_of_the_whole_programme():
    a, dW, db = mixture()
    seen = cone(a, dW, db)
    towards = torch.randn(IMAGES, generator=stream(0, "towards"), dtype=torch.double)
    q = seen.vertex(towards, 0.01)
    assert q is not None
    assert float(q @ seen.level) == pytest.approx(1)
    assert float((seen.basis @ q).min()) >= -0.01 * seen.scale * 1.001
    feasible = a @ seen.basis  # the images themselves are points of the cone
    assert float(q @ towards) >= float((feasible @ towards).max())


def test_a_mixture_of_two_is_parted_whichever_of_them_is_known():
    a, dW, db = mixture(noise=0.001)
    seen = cone(a, dW, db)
    pure = searched(seen).found
    mixed = 0.6 * pure[0] + 0.4 * pure[1]
    for known, hidden in ((0, 1), (1, 0)):
        parted = seen.parted(mixed, pure[known, None])
        assert float(torch.cosine_similarity(parted, pure[hidden], dim=0)) > 0.999
    assert torch.equal(seen.parted(pure[0], pure[1:]), pure[0])
    assert torch.equal(seen.parted(mixed, pure[2:]), mixed)


def test_what_was_found_as_a_mixture_is_set_right_by_its_other_half():
    a, dW, db = mixture(noise=0.001)
    seen = cone(a, dW, db)
    pure = searched(seen).found
    begun = Search(torch.cat([(0.6 * pure[0] + 0.4 * pure[1])[None], pure[2:]]))
    assert float(cosines(seen.features(searched(seen, begun).found), a).min()) > 0.999


def test_without_zeros_nothing_is_found_and_the_search_ends():
    a, dW, db = mixture(active=10.0)
    assert float((a == 0).double().mean()) == 0
    done = searched(replace(cone(a, dW, db), zeros=0.3))
    assert len(done.found) == 0
    assert done.failures == PATIENCE


def test_a_search_goes_on_where_it_stood():
    a, dW, db = mixture()
    seen = cone(a, dW, db)
    part = Search(torch.zeros(0, IMAGES, dtype=torch.double))
    for _ in range(5):
        part = part.further(seen, 0)
    again = searched(seen, Search(part.found.clone(), part.attempts, part.failures))
    assert torch.equal(again.found, searched(seen).found)
    assert not torch.equal(again.found, Search(part.found[:0]).further(seen, 1).found)
