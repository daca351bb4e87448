"""`leakscope data fetch NAME`: from the official address, resumable, checked, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np

from leakscope.data.archives import unpack_lzma, unpack_tar, unpack_zip
from leakscope.data.catalogue import Download, dataset_info
from leakscope.data.femnist import read_sqlite
from leakscope.data.loading import data_root
from leakscope.errors import InputError, Problem, refusal, refusing

Progress = Callable[[int, int | None], None]
"""(bytes so far, bytes in all or None): called after every piece."""

CHUNK = 1 << 18
TIMEOUT = 60.0
NETWORK = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def fetch(name: str, *, root: Path | None = None, progress: Progress = lambda _done, _total: None) -> Path:
    """Download a data set into the data root and return where it is. One that is already there is left alone.

    An interrupted download stays as `<name>.part` and is continued by the next call.
    """
    info = dataset_info(name)
    if info.download is None:
        raise refusal(f"there is nothing to download for {name!r}", fix=info.how)
    folder = data_root(root)
    target = folder / info.download.makes
    part = folder / f"{info.download.makes}.part"
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (part.exists() and _digest(part, info.download) == info.download.checksum):
            _download(info.download.url, part, progress)
            _verify(part, info.download)
        _INSTALL[info.download.kind](part, target)
        part.unlink(missing_ok=True)
    except OSError as error:
        found = f"{folder} cannot be written: {error.strerror or error}"
        raise refusal(found, fix="name another folder with --data-root, or make room") from error
    return target


def _download(url: str, part: Path, progress: Progress) -> None:
    """Append what is missing to the .part file; begin anew where the server cannot continue."""
    done = part.stat().st_size if part.exists() else 0
    with _open(url, done) as response:
        total = _total(response)
        continues = response.status == http.HTTPStatus.PARTIAL_CONTENT
        done = done if continues else 0
        why, fix = "what has arrived is kept", "run the same command again to continue"
        with part.open("ab" if continues else "wb") as out, refusing(url, *NETWORK, why=why, fix=fix):
            progress(done, total)
            while piece := response.read(CHUNK):
                out.write(piece)
                done += len(piece)
                progress(done, total)
            if total is not None and done < total:
                raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


def _open(url: str, start: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": "leakscope"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        asked = urllib.request.Request(url, headers=headers)
        response: http.client.HTTPResponse = urllib.request.urlopen(asked, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if start and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return _open(url, 0)  # more is there already than the server has: not the same file
        raise InputError(_unreachable(url, f"the server answers {error.code} {error.reason}")) from error
    except NETWORK as error:
        raise InputError(_unreachable(url, str(getattr(error, "reason", error)))) from error
    return response


def _total(response: http.client.HTTPResponse) -> int | None:
    """Size of the whole file, as Content-Range or Content-Length tells it."""
    whole = re.fullmatch(r"bytes \d+-\d+/(\d+)", response.headers.get("Content-Range", ""))
    length = whole.group(1) if whole else response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _verify(part: Path, download: Download) -> None:
    """A file that is not the published one is removed: continuing it would never mend it."""
    found = _digest(part, download)
    if found != download.checksum:
        part.unlink()
        why = "it was damaged or changed on the way; it has been removed"
        fix = "fetch again; if that does not help, the publisher has changed the file"
        raise refusal(f"{download.url} gave another file: {found}, not {download.checksum}", why=why, fix=fix)


def _digest(path: Path, download: Download) -> str:
    algorithm, _, _ = download.checksum.partition(":")
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _unreachable(url: str, reason: str) -> Problem:
    return Problem(f"{url} cannot be downloaded: {reason}", fix="check the network, or put the files there by hand")


def _install_writers(archive: Path, target: Path) -> None:
    """FEMNIST's 4.7 GB SQLite database of all writers -> an npz with 5 % of them."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=target.parent) as folder:
        workshop = Path(folder)
        unpack_lzma(archive, workshop / "emnist_all.sqlite")
        samples = read_sqlite([workshop / "emnist_all.sqlite"])
        assert samples.writers is not None
        assert samples.splits is not None
        names, writer = np.unique(samples.writers, return_inverse=True)
        np.savez_compressed(
            workshop / target.name,
            images=samples.images,
            labels=samples.labels,
            writer=writer,
            split=samples.splits,
            label_names=np.array(samples.label_names),
            writer_names=names,
        )
        (workshop / target.name).replace(target)


_INSTALL: dict[str, Callable[[Path, Path], object]] = {
    "file": Path.replace,
    "tar": unpack_tar,
    "zip": unpack_zip,
    "sqlite": _install_writers,
}
