"""`leakscope prior train` and `--prior`, on the embedded photographs."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from command_line import leakscope

pytest.importorskip("diffusers", reason="priors need diffusers (extra `diffusion`)")

SMALL = ("--channels", "8", "--batch-size", "2", "--device", "cpu")
AUDIT = ("--attack", "dggi", "--n", "4", "--epochs", "1", "--iterations", "5", "--device", "cpu", "--seed", "101")


def complaint(*arguments: object, cwd: Path | None = None) -> str:
    done = leakscope(*arguments, cwd=cwd)
    assert done.returncode == 2
    return " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("priors") / "photos"
    command = importlib.import_module("leakscope.cli.prior")
    with pytest.MonkeyPatch.context() as few:
        few.setattr(command, "SAMPLES", 2)
        few.setattr(command, "SAMPLING_STEPS", 2)
        for steps in ("1", "2"):
            done = leakscope("prior", "train", "--data", "photos", "--out", out, "--steps", steps, *SMALL)
            assert done.returncode == 0, done.stderr
    return out


def test_a_prior_is_trained_goes_on_and_says_what_it_knows(trained):
    facts = json.loads((trained / "prior.json").read_text())
    assert facts["steps"] == 2
    assert facts["data"] == "photos"
    assert facts["avoided"].startswith("clients of seeds 101, 102")
    assert 16 <= facts["images"] < 540
    assert {"config.json", "scheduler_config.json", "diffusion_pytorch_model.safetensors"} <= {
        path.name for path in trained.iterdir()
    }
    with Image.open(trained / "samples.png") as sheet:
        assert sheet.size == (2 * 33 * 3, (33 + 3) * 3)


def test_an_audit_with_a_prior_says_so_and_counts_it_by_content(trained, tmp_path):
    moved = shutil.copytree(trained, tmp_path / "moved")
    keys = set()
    for prior, out in ((trained, "here"), (moved, "there")):
        done = leakscope("audit", *AUDIT, "--prior", str(prior), "--out", str(tmp_path / out), "--json")
        assert done.returncode == 0, done.stderr
        (cell,) = json.loads(done.stdout)["cells"]
        keys.add(cell["key"])
        assert cell["knowledge"]["auxiliary"] is True
        assert cell["notes"]["prior"]["data"] == "photos"
        assert cell["status"] == "finished"
    assert len(keys) == 1


def test_a_client_that_the_prior_has_seen_is_refused(trained, tmp_path):
    options = (*AUDIT[:-1], "7", "--prior", trained, "--out", tmp_path / "run")
    assert "of the client's 4 images" in complaint("audit", *options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audit", "--attack", "dggi"), "dggi needs a prior"),
        (("audit", "--attack", "sme", "--prior", "anywhere"), "without an attack that uses one"),
        (("audit", "--attack", "dggi", "--prior", "/no/where"), "no such folder"),
        (("audit", "--attack", "dggi", "--set", "dggi.prior=x"), "--prior x"),
        (("prior", "train", "--data", "foto", "--out", "x"), "did you mean 'photos'"),
        (("prior", "train", "--data", "photos", "--out", "x", "--steps", "0"), "--steps 0 is not positive"),
        (("prior", "train", "--data", "photos", "--out", "x", "--avoid", "first"), "no seed and no range"),
        (("prior", "train", "--data", "photos", "--out", "x", "--channels", "9"), "multiple of 8"),
    ],
)
def test_bad_input_is_explained(arguments, words, tmp_path):
    assert words in complaint(*arguments, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_somebody_s_folder_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    options = ("--data", "photos", "--out", tmp_path, "--steps", "1", *SMALL)
    assert "not empty and not a prior" in complaint("prior", "train", *options)


def test_without_diffusers_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    assert "leakscope[diffusion]" in complaint("prior", "train", "--data", "photos", "--out", tmp_path / "x")
