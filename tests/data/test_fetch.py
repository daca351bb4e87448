"""Downloads, against a real HTTP server on loopback that can continue, break off, and lie."""

from __future__ import annotations

import hashlib
import http.server
import io
import lzma
import pickle
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emnist_archive import write_sqlite
from leakscope.data import DATASETS, load
from leakscope.data.fetch import fetch
from leakscope.errors import InputError


@dataclass
class Site:
    """One file, and how the server behaves."""

    content: bytes
    url: str = ""
    break_after: int | None = None
    knows_ranges: bool = True
    status: int | None = None
    ranges: list[str | None] = field(default_factory=list)


class Server(http.server.ThreadingHTTPServer):
    site: Site


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        site = self.server.site
        wanted = self.headers.get("Range")
        site.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and site.knows_ranges else 0
        if site.status or start >= len(site.content):
            self.send_error(site.status or 416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
        self.send_header("Content-Length", str(len(site.content) - start))
        self.end_headers()
        self.wfile.write(site.content[start : site.break_after])

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def site() -> Iterator[Site]:
    rng = np.random.default_rng(0)
    batch = {b"data": rng.integers(0, 256, (100, 3072), dtype=np.uint8), b"fine_labels": [3] * 100}
    made = Site(tar({"cifar-100-python/train": pickle.dumps(batch, protocol=2)}))
    with Server(("127.0.0.1", 0), Handler) as server:
        server.site = made
        made.url = f"http://127.0.0.1:{server.server_address[1]}/file"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def point(monkeypatch: pytest.MonkeyPatch, site: Site, name: str = "cifar100", checksum: str | None = None) -> None:
    """Let a data set come from the local server instead of its official address."""
    info = DATASETS[name]
    assert info.download is not None
    right = f"sha256:{hashlib.sha256(site.content).hexdigest()}"
    download = replace(info.download, url=site.url, checksum=checksum or right)
    monkeypatch.setitem(DATASETS, name, replace(info, download=download))


def listing(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_fetch_then_load(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, site)
    seen: list[tuple[int, int | None]] = []
    place = fetch("cifar100", root=tmp_path / "new", progress=lambda done, total: seen.append((done, total)))
    assert place == tmp_path / "new" / "cifar-100-python"
    assert len(load("cifar100", root=tmp_path / "new")) == 100
    assert seen[0] == (0, len(site.content))
    assert seen[-1] == (len(site.content), len(site.content))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert listing(tmp_path / "new") == ["cifar-100-python"]
    assert fetch("cifar100", root=tmp_path / "new") == place
    assert site.ranges == [None]  # the second call found it there


def test_an_interrupted_download_is_continued(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, site)
    site.break_after = 100_000
    with pytest.raises(InputError, match="run the same command again"):
        fetch("cifar100", root=tmp_path)
    assert listing(tmp_path) == ["cifar-100-python.part"]
    assert (tmp_path / "cifar-100-python.part").stat().st_size == 100_000
    site.break_after = None
    seen: list[int] = []
    fetch("cifar100", root=tmp_path, progress=lambda done, _: seen.append(done))
    assert seen[0] == 100_000
    assert site.ranges == [None, "bytes=100000-"]
    assert len(load("cifar100", root=tmp_path)) == 100
    assert listing(tmp_path) == ["cifar-100-python"]


def test_a_server_that_cannot_continue_begins_anew(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, site)
    site.knows_ranges = False
    (tmp_path / "cifar-100-python.part").write_bytes(b"x" * 5000)
    fetch("cifar100", root=tmp_path)
    assert len(load("cifar100", root=tmp_path)) == 100


def test_a_part_that_is_too_long_is_thrown_away(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, site)
    (tmp_path / "cifar-100-python.part").write_bytes(b"x" * (len(site.content) + 1))
    fetch("cifar100", root=tmp_path)
    assert len(load("cifar100", root=tmp_path)) == 100


def test_a_complete_part_needs_no_network(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, site)
    (tmp_path / "cifar-100-python.part").write_bytes(site.content)
    fetch("cifar100", root=tmp_path)
    assert site.ranges == []
    assert listing(tmp_path) == ["cifar-100-python"]


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, site, checksum="md5:00000000000000000000000000000000")
    with pytest.raises(InputError, match="gave another file") as caught:
        fetch("cifar100", root=tmp_path)
    assert hashlib.md5(site.content).hexdigest() in str(caught.value)
    assert listing(tmp_path) == []


def test_a_download_that_was_tampered_with_on_the_way_is_not_mended(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    point(monkeypatch, site)
    (tmp_path / "cifar-100-python.part").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match="gave another file"):
        fetch("cifar100", root=tmp_path)
    fetch("cifar100", root=tmp_path)
    assert len(load("cifar100", root=tmp_path)) == 100


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_server_that_refuses(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    point(monkeypatch, site)
    site.status = status
    with pytest.raises(InputError, match=f"answers {status}"):
        fetch("cifar100", root=tmp_path)
    assert listing(tmp_path) == []


def test_nobody_there(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.url = "http://127.0.0.1:9/nothing"
    point(monkeypatch, site)
    with pytest.raises(InputError, match="check the network"):
        fetch("cifar100", root=tmp_path)


def test_an_archive_that_reaches_out_is_refused(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.content = tar({"cifar-100-python/train": b"1", "../escaped": b"2"})
    point(monkeypatch, site)
    with pytest.raises(InputError, match="could overwrite other files"):
        fetch("cifar100", root=tmp_path / "root")
    assert listing(tmp_path) == ["root"]
    assert listing(tmp_path / "root") == ["cifar-100-python.part"]


def test_a_plain_file(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: dict[str, Any] = {f"{split}_images": np.zeros((2, 28, 28), np.uint8) for split in ("train", "test")}
    arrays |= {f"{split}_labels": np.zeros((2, 1), np.uint8) for split in ("train", "test")}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    site.content = buffer.getvalue()
    point(monkeypatch, site, "organamnist28")
    assert fetch("organamnist28", root=tmp_path) == tmp_path / "organamnist.npz"
    assert len(load("organamnist28", root=tmp_path)) == 4


def test_femnist_ends_as_a_small_npz(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sqlite(tmp_path / "made.sqlite", 40)
    site.content = lzma.compress((tmp_path / "made.sqlite").read_bytes(), format=lzma.FORMAT_ALONE)
    point(monkeypatch, site, "femnist")
    root = tmp_path / "root"
    assert fetch("femnist", root=root) == root / "femnist.npz"
    assert listing(root) == ["femnist.npz"]
    dataset = load("femnist", root=root)
    assert len(dataset) == 8
    assert len(dataset.writer_names) == 2
    assert dataset.writer_names[0].startswith("f00")


def test_what_cannot_be_fetched_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="comes with leakscope"):
        fetch("photos", root=tmp_path)
    with pytest.raises(InputError, match="PATH/<class>/"):
        fetch("folder:/x", root=tmp_path)
    with pytest.raises(InputError, match="did you mean 'cifar100'"):
        fetch("cifar1000", root=tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        fetch("cifar100", root=tmp_path / "file" / "below")
