"""One tiny prior for all tests of this folder."""

import pytest

pytest.importorskip("diffusers", reason="priors need diffusers (extra `diffusion`)")

from pathlib import Path

from priors import tiny_prior


@pytest.fixture(scope="session")
def prior(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_prior(tmp_path_factory.mktemp("priors") / "tiny")
