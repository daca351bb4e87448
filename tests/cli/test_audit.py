"""`leakscope audit`: code of one's own in worker processes, and the table that it ends with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.console import Console

import own_code
from command_line import leakscope, workers_of
from leakscope.audits.audit import AuditResult
from leakscope.cli.audit import table_of


def cell(**changed: Any) -> dict[str, Any]:
    usual = {
        "key": "a",
        "dataset": "photos",
        "client": {"seed": 0},
        "attack": "span-sme",
        "defense": "none",
        "metrics": {"psnr": 38.59, "ssim": 0.977, "lpips": 0.018, "identified": 1.0},
        "baseline": {"psnr": 11.86},
        "seconds": 44.2,
        "status": "finished",
    }
    return usual | changed


def printed(*cells: dict[str, Any], width: int = 80) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table_of(AuditResult(Path("run"), {"cells": list(cells)})))
    return captured.get().splitlines()


def test_it_fits_into_eighty_columns_with_every_word_whole():
    lines = printed(cell())
    assert len(lines) == 3  # two of headings, one of values
    assert " ".join(lines[1].split()) == "client attack defense dB nothing SSIM LPIPS identified seconds"
    assert " ".join(lines[2].split()) == "photos seed 0 span-sme none 38.59 11.86 0.977 0.018 1.00 44"


def test_accuracy_stands_there_where_a_cell_has_one():
    lines = printed(cell(), cell(accuracy={"defended": 0.513}))
    assert lines[1].split()[-2:] == ["accuracy", "seconds"]
    assert [line.split()[-2:] for line in lines[2:] if "38.59" in line] == [["-", "44"], ["0.513", "44"]]


def test_a_cell_that_did_not_finish_says_so_beside_its_client():
    lines = printed(cell(status="stopped early"))
    end = lines[1].index("attack")
    assert " ".join(line[:end].strip() for line in lines[2:]) == "photos seed 0: stopped early"


def test_a_long_defense_is_wrapped_and_never_cut():
    defense = "dpsgd:epsilon=10,clip=1+gaussian:std=0.1"
    lines = printed(cell(defense=defense))
    start = lines[1].index("defense")
    end = lines[2].index("38.59")
    assert "".join(line[start:end].strip() for line in lines[2:]) == defense


def test_a_client_an_attack_and_a_defense_of_one_s_own_reach_the_worker_processes(tmp_path: Path) -> None:
    for name, code in {"client": own_code.CLIENT, "beside": own_code.BESIDE, "mine": own_code.PLUGIN}.items():
        (tmp_path / f"{name}.py").write_text(code)
    mine = ("--plugin", "mine.py", "--attack", "plain", "--attack", "sme", "--defense", "shrink:factor=0.25")
    options = ("--iterations", "3", "--workers", "2", "--out", "run", "--json")
    done = leakscope("audit", "client.py:client", *mine, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert [(cell["attack"], cell["defense"], cell["status"]) for cell in cells] == [
        ("plain", "shrink:factor=0.25", "finished"),
        ("sme", "shrink:factor=0.25", "finished"),
    ]
    assert cells[0]["client"]["source"] == "client.py:client"
    assert cells[0]["metrics"]["identified"] is not None
    workers = workers_of(tmp_path / "run")
    assert workers
    assert os.getpid() not in workers
