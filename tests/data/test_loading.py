"""Names, roots, and what is said where nothing is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leakscope.data import DATASETS, data_root, default_model, load, where
from leakscope.errors import InputError
from leakscope.victims import MODELS


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LEAKSCOPE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put_cifar(folder: Path, n: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "cifar100.npz", images=np.zeros((n, 32, 32, 3), np.uint8), labels=np.zeros(n, int))


def test_the_given_root_goes_before_the_variable_and_that_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_cifar(tmp_path / "cache" / "leakscope" / "data", 1)
    assert len(load("cifar100")) == 1
    put_cifar(tmp_path / "named", 2)
    monkeypatch.setenv("LEAKSCOPE_DATA", str(tmp_path / "named"))
    assert len(load("cifar100")) == 2
    put_cifar(tmp_path / "given", 3)
    assert len(load("cifar100", root=tmp_path / "given")) == 3
    assert data_root() == tmp_path / "named"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LEAKSCOPE_DATA")
    assert data_root() == Path.home() / ".cache" / "leakscope" / "data"


@pytest.mark.parametrize("name", [name for name, info in DATASETS.items() if info.forms])
def test_missing_data_names_every_place_and_every_way(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name, root=tmp_path)
    said = str(caught.value)
    for form in DATASETS[name].forms:
        assert str(tmp_path / form.place) in said
    assert DATASETS[name].how in said
    assert "--data-root" in said
    assert "LEAKSCOPE_DATA" in said
    assert where(name, root=tmp_path) is None


def test_a_root_that_is_no_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is no folder"):
        load("cifar100", root=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("typed", "meant"), [("cifar10", "cifar100"), ("tiny-imagenet", "tiny_imagenet"), ("photo", "photos")]
)
def test_did_you_mean(typed: str, meant: str) -> None:
    for ask in (load, default_model, where):
        with pytest.raises(InputError, match=f"did you mean '{meant}'"):
            ask(typed)


def test_an_unreadable_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python" / "train").mkdir(parents=True)
    with pytest.raises(InputError, match="cannot be read"):
        load("cifar100", root=tmp_path)


def test_where(tmp_path: Path) -> None:
    put_cifar(tmp_path, 1)
    assert where("cifar100", root=tmp_path) == tmp_path / "cifar100.npz"
    assert where(f"folder:{tmp_path}") == tmp_path
    assert where("folder:/no/such/place") is None
    photos = where("photos")
    assert photos is not None
    assert photos.is_dir()


def test_default_models() -> None:
    expected = {
        "femnist": "cnn-mnist",
        "cifar100": "cnn-cifar",
        "photos": "cnn-cifar",
        "folder:/some/where": "cnn-cifar",
        "tiny_imagenet": "mlp-tiny",
        "organamnist": "cnn-organ",
        "organamnist28": "cnn-organ",
        "organamnist64": "cnn-organ",
        "organamnist28@64": "cnn-organ",
    }
    assert {name: default_model(name) for name in expected} == expected
    assert {info.model for info in DATASETS.values()} <= set(MODELS)


def test_the_papers_normalisations() -> None:
    assert DATASETS["cifar100"].normalisation.mean == (0.5071, 0.4866, 0.4409)
    assert DATASETS["cifar100"].normalisation.std == (0.2673, 0.2564, 0.2762)
    assert DATASETS["femnist"].normalisation.mean == (0.9642384386,)
    assert DATASETS["femnist"].normalisation.std == (0.1576784320,)


def test_every_entry_is_complete() -> None:
    for name, info in DATASETS.items():
        assert info.description, name
        assert info.licence
        assert info.how
        assert info.auxiliary in ("", *DATASETS)
        assert not info.auxiliary or DATASETS[info.auxiliary].for_priors
        if scale := info.normalisation:
            assert {len(scale.mean), len(scale.std)} <= set(info.expected.channels)
        if info.download:
            algorithm, _, digest = info.download.checksum.partition(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
            assert any(form.place.split("/")[0] == info.download.makes for form in info.forms)
