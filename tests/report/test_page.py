"""The report: one file that stands alone, says what it must, hides what it must, and runs no code but its own."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leakscope.errors import InputError
from leakscope.report import render
from leakscope.report.reading import read_run
from leakscope.report.tiles import MOSAIC, to_pixels
from leakscope.verdict.levels import NOT_PRIVATE
from sample_run import write_run

PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/=]+")


def pictures(page: str) -> list[np.ndarray]:
    """Every image in the file, decoded."""
    found = set(PNG.findall(page))
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))) for text in found]


def private_images(folder: Path) -> set[bytes]:
    run = read_run(folder)
    seen = set()
    for cell in run.cells:
        kept = run.pictures(cell.key)
        for images in (kept.originals, kept.reconstructions):
            assert images is not None
            seen |= {np.ascontiguousarray(to_pixels(image).transpose(1, 2, 0)).tobytes() for image in images}
    return seen


def test_every_image_is_in_the_file_pixel_by_pixel(matrix_run: Path) -> None:
    page = render(matrix_run).read_text(encoding="utf-8")
    shown = {picture.tobytes() for picture in pictures(page)}
    assert private_images(matrix_run) <= shown


def test_redaction_leaves_no_pixel_and_keeps_every_score(matrix_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(matrix_run, tmp_path / "run")
    plain = render(folder).read_text(encoding="utf-8")
    page = render(folder, redact=True).read_text(encoding="utf-8")
    private = private_images(folder)
    guess = read_run(folder).pictures(read_run(folder).cells[0].key).baseline
    assert guess is not None
    shown = [p for p in pictures(page) if p.tobytes() != to_pixels(guess).transpose(1, 2, 0).tobytes()]
    assert len(shown) > 100
    assert not {picture.tobytes() for picture in shown} & private
    assert all(len({row.tobytes() for row in picture}) <= MOSAIC for picture in shown)
    scores = re.compile(r"\d+\.\d+ dB \(guess \d+\.\d+\), SSIM \d\.\d+, relative −?\d\.\d+")
    assert sorted(scores.findall(page)) == sorted(scores.findall(plain))
    assert "Redacted" in page
    assert "Redacted" not in plain


def test_redaction_withholds_names_and_places(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run-of-mallory", n=4)
    result = json.loads((folder / "result.json").read_text())
    result["command"] = (
        "leakscope audit --dataset folder:/home/mallory/ward-7 --writer f1234_05 --out /srv/mallory --n 4"
    )
    cell = result["cells"][0]
    cell |= {"dataset": "folder:/home/mallory/ward-7", "model": "mallory.nets:ward", "error": "in /home/mallory"}
    cell["w0"] = "mallory.st"
    cell["notes"]["prior"] = {"data": "folder:/home/mallory/ward-7"}
    cell["client"]["writer"] = "f1234_05"
    cell["missing"]["lpips"] = "looked in /home/mallory/weights"
    (folder / "result.json").write_text(json.dumps(result))
    assert "ward-7" in render(folder).read_text(encoding="utf-8")
    page = render(folder, redact=True).read_text(encoding="utf-8")
    for secret in ("mallory", "ward-7", "f1234_05"):
        assert secret not in page
    assert "--n 4" in page


def test_nothing_is_fetched_and_only_our_own_code_may_run(matrix_run: Path) -> None:
    page = render(matrix_run).read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    rules = policy[1].replace("&#39;", "'")
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in rules
    assert "default-src 'none'" in rules
    assert "unsafe" not in rules
    assert not re.search(r'\sstyle="|\son\w+="', page)


def test_hostile_strings_stay_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", attacks=("ig", "sme"), n=3)
    result = json.loads((folder / "result.json").read_text())
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    result["command"] = result["summary"]["verdict"] = evil
    for cell in result["cells"]:
        cell |= {"attack": evil, "defense": evil, "status": evil, "attack_repr": evil, "matching": {"chosen": evil}}
    (folder / "result.json").write_text(json.dumps(result))
    page = render(folder).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert page.count("</script>") == page.count("<script")


def test_first_screen_says_what_leaked_under_which_assumptions_and_what_to_do(matrix_run: Path) -> None:
    page = render(matrix_run).read_text(encoding="utf-8")
    first = page[: page.index('id="images"')]
    run = read_run(matrix_run)
    for said in ("Private images can be rebuilt", run.verdict.sentence, "What leaked", "Under which assumptions"):
        assert said in first
    assert "What to do" in first
    assert "Prefer " in first


def test_no_success_is_not_called_private(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", attacks=("ig",), defenses=("dpsgd:epsilon=1",), n=10)
    page = render(folder).read_text(encoding="utf-8")
    assert "No attack in this run succeeded" in page
    assert NOT_PRIVATE in page


def test_rounds_have_their_own_curve(tmp_path: Path) -> None:
    page = render(write_run(tmp_path / "run", rounds=range(3), n=3)).read_text(encoding="utf-8")
    assert "Leakage over rounds" in page


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", n=3, finished=False)
    assert "has not ended" in render(folder).read_text(encoding="utf-8")


def test_a_run_without_truth_shows_what_it_has(tmp_path: Path) -> None:
    page = render(write_run(tmp_path / "run", truth=False, n=3)).read_text(encoding="utf-8")
    assert "could not be scored" in page
    assert "original not known" in page


def test_broken_images_cost_the_images_not_the_report(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", attacks=("ig", "sme"), n=3)
    for path in folder.glob("cells/*/images.safetensors"):
        path.write_bytes(b"broken")
    page = render(folder).read_text(encoding="utf-8")
    assert "cannot read" in page


def test_a_failed_cell_alone(tmp_path: Path) -> None:
    failed = {"key": "a", "attack": "sme", "status": "failed", "error": "out of memory"}
    result = {"schema_version": 1, "cells": [failed], "summary": {}}
    (tmp_path / "result.json").write_text(json.dumps(result))
    page = render(tmp_path).read_text(encoding="utf-8")
    assert "out of memory" in page
    assert "could not be scored" in page


def test_nothing_half_written_is_left(small_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small_run, tmp_path / "run")
    before = {path.name for path in folder.iterdir()}
    render(folder)
    assert {path.name for path in folder.iterdir()} == before | {"index.html"}
    (folder / "result.json").write_text("{")
    old = (folder / "index.html").read_bytes()
    with pytest.raises(InputError):
        render(folder)
    assert (folder / "index.html").read_bytes() == old


def test_two_hundred_cells_stay_below_15_mb(large_run: Path) -> None:
    start = time.perf_counter()
    path = render(large_run)
    assert time.perf_counter() - start < 30
    assert path.stat().st_size < 15_000_000
    page = path.read_text(encoding="utf-8")
    assert page.count('type="application/json" id="cell-') == 199
    worst = page[page.index('id="strip-first"') : page.index('id="strip-chosen"')]
    assert worst.count('class="trio"') == 50
