"""The scene of most attack tests."""

from pathlib import Path

import pytest

from leakscope.client.training import Client
from leakscope.observation.firewall import Observation
from scenes import tiny_client, tiny_observation


@pytest.fixture
def client() -> Client:
    return tiny_client()


@pytest.fixture
def observation(client: Client) -> Observation:
    return tiny_observation(client)


@pytest.fixture(scope="session")
def prior(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny diffusion prior for the small clients' images."""
    pytest.importorskip("diffusers", reason="priors need diffusers (extra `diffusion`)")
    from priors import tiny_prior

    return tiny_prior(tmp_path_factory.mktemp("priors") / "tiny")
