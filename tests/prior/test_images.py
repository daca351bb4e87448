"""Which images a prior may learn from."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from leakscope.data import Dataset, draw_client, load, where
from leakscope.errors import InputError
from leakscope.prior.images import digests, gather, parse_seeds
from leakscope.types import Normalisation


def dataset(name: str = "things", count: int = 60) -> Dataset:
    images = np.random.default_rng(0).integers(0, 256, (count, 12, 12, 1), dtype=np.uint8)
    images[1] = images[0]
    labels = np.zeros(count, dtype=np.int64)
    return Dataset(name, images, labels, 2, Normalisation((0.5,), (0.25,)), "nowhere", "fingerprint")


def test_no_image_of_an_avoided_client_is_learnt_from():
    found = gather(dataset(), avoid=(3, 4), n=10)
    known = set(digests(found.pixels).tolist())
    for seed in (3, 4):
        assert not known & set(digests(draw_client(dataset(), n=10, seed=seed).images).tolist())
    held = {one for seed in (3, 4) for one in digests(draw_client(dataset(), n=10, seed=seed).images).tolist()}
    assert len(found) == len(set(digests(dataset().pixels()).tolist()) - held)
    assert found.avoided == "clients of seeds 3, 4 with n = 10"


def test_public_data_is_taken_whole_and_once():
    found = gather(replace(dataset(), for_priors=True), avoid=(3, 4), n=10)
    assert len(found) == 59
    assert found.shape == (1, 12, 12)
    assert "no client" in found.avoided


def test_writers_are_clients():
    by_writer = replace(dataset(), writers=np.zeros(60, dtype=np.int64), auxiliary="femnist_public")
    with pytest.raises(InputError, match="femnist_public"):
        gather(by_writer, avoid=(), n=10)


@pytest.mark.parametrize(("public", "private"), [("femnist_public", "femnist"), ("cifar10_public", "cifar100")])
def test_the_public_sets_hold_no_client_s_image(public, private):
    if "LEAKSCOPE_DATA" not in os.environ or where(public) is None or where(private) is None:
        pytest.skip(f"{public} and {private} are not under LEAKSCOPE_DATA")
    found = gather(load(public), avoid=(0, 1), n=50)
    assert len(found) > 2000
    assert not set(digests(found.pixels).tolist()) & set(digests(load(private).pixels()).tolist())


def test_a_prior_needs_images():
    with pytest.raises(InputError, match="left to learn from"):
        gather(dataset(count=20), avoid=(0, 1), n=10)


def test_digests_tell_images_apart_whatever_their_type():
    whole = torch.randint(256, (5, 3, 8, 8), dtype=torch.uint8)
    assert torch.equal(digests(whole), digests(whole.float() / 255))
    assert len(set(digests(whole).tolist())) == 5


def test_seeds_are_read_with_ranges():
    assert parse_seeds("1, 3-5") == (1, 3, 4, 5)
    assert parse_seeds("") == ()
    with pytest.raises(InputError, match="no seed and no range"):
        parse_seeds("1-x")
