"""Figures: every kind in every format, the same bytes twice, and refusals that say what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leakscope.errors import InputError
from leakscope.report.figures import COLOURS, FORMATS, KINDS, draw
from sample_run import write_run

MAGIC = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_the_same_twice(kind: str, matrix_run: Path, tmp_path: Path) -> None:
    first, second = (draw(matrix_run, kind, tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second
    assert first.startswith(MAGIC["svg"])
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.svg", "b.svg"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format(suffix: str, matrix_run: Path, tmp_path: Path) -> None:
    assert draw(matrix_run, "heatmap", tmp_path / f"x.{suffix}").read_bytes().startswith(MAGIC[suffix])


def test_the_folder_of_a_figure_is_made(matrix_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder" / "x.svg"
    assert draw(matrix_run, "heatmap", out) == out
    assert [path.name for path in out.parent.iterdir()] == ["x.svg"]


def test_text_stays_text_in_svg(matrix_run: Path, tmp_path: Path) -> None:
    text = draw(matrix_run, "heatmap", tmp_path / "x.svg").read_text(encoding="utf-8")
    for word in ("nl-sme", "undefended", "clip:bound=4", "images identified"):
        assert word in text


def test_lines_use_the_safe_colours(matrix_run: Path, tmp_path: Path) -> None:
    text = draw(matrix_run, "convergence", tmp_path / "x.svg").read_text(encoding="utf-8").upper()
    assert all(colour in text for colour in COLOURS[:6])


def test_the_heatmap_shows_the_shares_of_the_run(matrix_run: Path, tmp_path: Path) -> None:
    from leakscope.report.matrix import matrices
    from leakscope.report.reading import read_run

    text = draw(matrix_run, "heatmap", tmp_path / "x.svg").read_text(encoding="utf-8")
    (table,) = matrices(read_run(matrix_run).cells)
    for row in table.rows:
        for entry in row.entries:
            assert entry is not None
            assert f">{100 * (entry.share or 0):.0f}</text>" in text


def test_grey_images_in_a_grid(small_run: Path, tmp_path: Path) -> None:
    assert draw(small_run, "grid", tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [("gird", "x.svg", "did you mean 'grid'"), ("grid", "x.jpg", "unknown figure format 'jpg'")],
)
def test_unknown_kinds_and_formats(kind: str, name: str, said: str, small_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        draw(small_run, kind, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_tradeoff_needs_accuracy(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", n=3, accuracy=False)
    with pytest.raises(InputError, match="no test accuracy"):
        draw(folder, "tradeoff", tmp_path / "x.svg")


def test_a_run_without_truth_has_no_heatmap_and_no_grid(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", n=3, truth=False)
    for kind in ("heatmap", "grid"):
        with pytest.raises(InputError):
            draw(folder, kind, tmp_path / "x.svg")


def test_a_grid_without_images_says_so(small_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small_run, tmp_path / "run")
    for path in folder.glob("cells/*/images.safetensors"):
        path.unlink()
    with pytest.raises(InputError, match="no images"):
        draw(folder, "grid", tmp_path / "x.svg")
