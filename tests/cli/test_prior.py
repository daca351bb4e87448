"""`leakscope prior train` and `--prior`, on the embedded photographs."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("diffusers", reason="priors need diffusers (extra `diffusion`)")

SMALL = ("--channels", "8", "--batch-size", "2", "--device", "cpu")
AUDIT = ("--attack", "dggi", "--n", "4", "--epochs", "1", "--iterations", "5", "--device", "cpu", "--seed", "101")


def leakscope(*arguments: str):
    from typer.testing import CliRunner

    from leakscope.cli import app

    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("priors") / "photos"
    command = importlib.import_module("leakscope.cli.prior")
    with pytest.MonkeyPatch.context() as few:
        few.setattr(command, "SAMPLES", 2)
        few.setattr(command, "SAMPLING_STEPS", 2)
        for steps in ("1", "2"):
            done = leakscope("prior", "train", "--data", "photos", "--out", str(out), "--steps", steps, *SMALL)
            assert done.exit_code == 0, (done.output, done.exception)
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
        assert done.exit_code == 0, (done.output, done.exception)
        (cell,) = json.loads(done.stdout)["cells"]
        keys.add(cell["key"])
        assert cell["knowledge"]["auxiliary"] is True
        assert cell["notes"]["prior"]["data"] == "photos"
        assert cell["status"] == "finished"
    assert len(keys) == 1


def test_a_client_that_the_prior_has_seen_is_refused(trained, tmp_path):
    options = [*AUDIT[:-1], "7", "--prior", str(trained), "--out", str(tmp_path / "run")]
    done = leakscope("audit", *options)
    assert "of the client's 4 images" in str(done.exception)


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
def test_bad_input_is_explained(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = leakscope(*arguments)
    assert words in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_somebody_s_folder_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    done = leakscope("prior", "train", "--data", "photos", "--out", str(tmp_path), "--steps", "1", *SMALL)
    assert "not empty and not a prior" in str(done.exception)


def test_without_diffusers_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    done = leakscope("prior", "train", "--data", "photos", "--out", str(tmp_path / "x"))
    assert "leakscope[diffusion]" in str(done.exception)
