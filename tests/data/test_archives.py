"""Archives that behave, and archives that try to write elsewhere."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from leakscope.data.archives import unpack_lzma, unpack_tar, unpack_zip
from leakscope.errors import InputError

Pack = Callable[[Path, dict[str, bytes]], Path]


def pack_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def pack_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return path


KINDS = pytest.mark.parametrize(("pack", "unpack"), [(pack_tar, unpack_tar), (pack_zip, unpack_zip)])


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@KINDS
def test_the_folder_appears_whole(tmp_path: Path, pack: Pack, unpack: Callable[[Path, Path], None]) -> None:
    archive = pack(tmp_path / "a", {"data/one": b"1", "data/deep/two": b"22", "other": b"3"})
    unpack(archive, tmp_path / "data")
    assert (tmp_path / "data" / "deep" / "two").read_bytes() == b"22"
    assert only(tmp_path) == ["a", "data"]


@KINDS
@pytest.mark.parametrize("name", ["../escaped", "data/../../escaped", "/tmp/escaped-from-leakscope"])
def test_nothing_is_written_elsewhere(
    tmp_path: Path, pack: Pack, unpack: Callable[[Path, Path], None], name: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    archive = pack(home / "a", {"data/one": b"1", name: b"gotcha"})
    with pytest.raises(InputError, match="could overwrite other files"):
        unpack(archive, home / "data")
    assert only(home) == ["a"]
    assert only(tmp_path) == ["home"]
    assert not Path("/tmp/escaped-from-leakscope").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo("data/link")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    with pytest.raises(InputError) as caught:
        unpack_tar(tmp_path / "a.tar", tmp_path / "data")
    assert len(caught.value.problems) == 3
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        link = zipfile.ZipInfo("data/link")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="no plain file"):
        unpack_zip(tmp_path / "a.zip", tmp_path / "data")


@KINDS
def test_a_cut_archive_leaves_nothing(tmp_path: Path, pack: Pack, unpack: Callable[[Path, Path], None]) -> None:
    archive = pack(tmp_path / "a", {f"data/{i}": bytes(range(256)) * 40 for i in range(20)})
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "data")
    assert only(tmp_path) == ["a"]


@KINDS
def test_an_archive_of_something_else(tmp_path: Path, pack: Pack, unpack: Callable[[Path, Path], None]) -> None:
    with pytest.raises(InputError, match="holds no data"):
        unpack(pack(tmp_path / "a", {"other": b"1"}), tmp_path / "data")


def test_lzma(tmp_path: Path) -> None:
    archive = tmp_path / "a.lzma"
    archive.write_bytes(lzma.compress(b"content" * 1000, format=lzma.FORMAT_ALONE))
    unpack_lzma(archive, tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == b"content" * 1000
    archive.write_bytes(archive.read_bytes()[:40])
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpack_lzma(archive, tmp_path / "more")
    assert only(tmp_path) == ["a.lzma", "data"]
