from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.metrics.assign import assign
from leakscope.metrics.identify import chance, held_out, identified
from reference_images import crops

IMAGES = crops(60)


@settings(deadline=None)
@given(contrast=st.floats(0.05, 1.0), brightness=st.floats(-0.5, 0.5))
def test_contrast_and_brightness_do_not_hide_an_image(contrast: float, brightness: float) -> None:
    assert identified(IMAGES[:10], contrast * IMAGES[:10] + brightness, IMAGES[10:]).all()


def test_a_nearer_candidate_and_a_flat_reconstruction_identify_nobody() -> None:
    images = crops(20)
    assert not identified(images[:3], images[10:13], images[10:]).any()
    assert not identified(images[:3], torch.full_like(images[:3], 0.4), images[10:]).any()
    assert not identified(images[:3], 1 - images[:3], images[10:]).any()


def test_copies_of_originals_are_no_candidates() -> None:
    images = crops(10)
    assert torch.equal(held_out(images, images[:3]), images[3:])
    assert identified(images[:3], images[:3], held_out(images, images[:3])).all()
    assert len(held_out(images[:0], images)) == 0


def test_without_information_no_more_are_identified_than_chance_says() -> None:
    """Noise, and other photographs: the assignment hands out the best guess, and the level allows for that."""
    images, n, k = crops(400), 20, 180
    draws = torch.Generator().manual_seed(3)
    rates = {"noise": [], "photographs": []}  # type: ignore[var-annotated]
    for _ in range(20):
        order = torch.randperm(400, generator=draws)
        originals, candidates, others = images[order[:n]], images[order[n : n + k]], images[order[-n:]]
        guesses = {"noise": torch.rand(originals.shape, generator=draws), "photographs": others}
        for name, guess in guesses.items():
            mine = guess[list(assign(originals, guess))]
            rates[name].append(identified(originals, mine, candidates).double().mean())
    for found in rates.values():
        assert 1 / (1 + k) < float(torch.stack(found).mean()) < chance(n, k) + 0.02
