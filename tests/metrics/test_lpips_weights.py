from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leakscope.errors import InputError
from leakscope.metrics.lpips_weights import SOURCES, VARIABLE, Source, find_weights, locate
from leakscope.metrics.pairs import UnavailableError

TRUNK, HEADS = SOURCES["vgg"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of torch's own, and no weights folder in the environment."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "torch" / "hub" / "checkpoints"


def served(tmp_path: Path, content: bytes, sha256: str) -> Source:
    """A source whose address is a file on this machine."""
    origin = tmp_path / "origin.pth"
    origin.write_bytes(content)
    return replace(TRUNK, address=origin.as_uri(), sha256=sha256)


def test_the_folder_given_goes_before_the_environment_and_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True)
    given, named = tmp_path / "given", tmp_path / "named"
    monkeypatch.setenv(VARIABLE, str(named))
    places = [cache / TRUNK.cached, named / TRUNK.file, given / TRUNK.file]
    for place in places:
        place.parent.mkdir(exist_ok=True)
        place.touch()
        weights = given if place.parent == given else None
        assert locate(TRUNK, weights, download=False) == place


def test_without_download_the_reason_says_where_it_looked(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as error:
        locate(HEADS, tmp_path, download=False)
    assert str(tmp_path / HEADS.file) in str(error.value)
    assert str(cache / HEADS.cached) in str(error.value)
    assert "--weights" in str(error.value)


def test_a_download_lands_in_the_cache(cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = served(tmp_path, b"weights", hashlib.sha256(b"weights").hexdigest())
    assert locate(source, None) == cache / TRUNK.cached
    assert (cache / TRUNK.cached).read_bytes() == b"weights"
    assert "downloading" in caplog.text


def test_a_download_with_another_checksum_is_not_kept(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="hash"):
        locate(served(tmp_path, b"something else", "0" * 64), None)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("cache")
def test_an_address_that_does_not_answer_is_a_reason() -> None:
    source = replace(TRUNK, address="http://127.0.0.1:9/vgg16.pth")
    with pytest.raises(UnavailableError, match="does not answer"):
        locate(source, None)


@pytest.mark.usefixtures("cache")
def test_find_weights_lists_all_that_is_missing_at_once(tmp_path: Path) -> None:
    (tmp_path / TRUNK.file).touch()
    with pytest.raises(InputError) as error:
        find_weights(tmp_path)
    assert len(error.value.problems) == 3
    for pair in SOURCES.values():
        for source in pair:
            (tmp_path / source.file).touch()
    assert find_weights(tmp_path) == tmp_path


def test_find_weights_refuses_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        find_weights(tmp_path / "nowhere")


def test_torch_is_asked_for_its_cache_each_time(cache: Path) -> None:
    assert Path(torch.hub.get_dir()) / "checkpoints" == cache
