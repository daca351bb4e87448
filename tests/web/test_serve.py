"""`serve`: what it refuses, the address it prints, and that an interrupt ends it and its audits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from leakscope.errors import InputError
from leakscope.web import serve
from sample_run import write_run


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org"])
def test_it_binds_to_this_machine_alone(tmp_path: Path, host: str) -> None:
    with pytest.raises(InputError, match="ssh -L"):
        serve(tmp_path, host=host)


def test_a_run_is_not_a_folder_of_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"leakscope serve {tmp_path}"):
        serve(write_run(tmp_path / "run", n=3))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="is a file"):
        serve(tmp_path / "x")


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="cannot listen"):
        serve(tmp_path, port=taken.getsockname()[1])


def test_the_printed_address_opens_it_and_an_interrupt_ends_it(tmp_path: Path) -> None:
    program = "import pathlib, sys; from leakscope.web import serve; serve(pathlib.Path(sys.argv[1]))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "runs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().split()[-1]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=20) as page:
            assert "Nothing here yet" in page.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.partition("?")[0], timeout=20)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert "Traceback" not in process.stderr.read()
