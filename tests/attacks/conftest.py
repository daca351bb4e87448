"""The scene of most attack tests."""

import pytest

from leakscope.client import Client
from leakscope.observation import Observation
from scenes import tiny_client, tiny_observation


@pytest.fixture
def client() -> Client:
    return tiny_client()


@pytest.fixture
def observation(client: Client) -> Observation:
    return tiny_observation(client)
