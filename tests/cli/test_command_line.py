"""The command line as a person uses it, on the embedded photographs; in real processes where those matter."""

import json
import signal
import subprocess
import time

import pytest

from command_line import ENVIRONMENT, command, leakscope, process

CLIENT = ("--model", "cnn-mnist", "--n", "4", "--epochs", "1")
ATTACK = ("--iterations", "30", "--history", "10", "--attack", "nl-sme")
TINY = (*CLIENT, *ATTACK)
DEFENSES = ("--defense", "none", "--defense", "sparsify:rate=0.9")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "tiny"
    done = process("audit", *TINY, *DEFENSES, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    return out, done


def test_audit_prints_one_json_document_and_writes_the_run_folder(run):
    out, done = run
    result = json.loads(done.stdout)
    assert result == json.loads((out / "result.json").read_text())
    assert [cell["defense"] for cell in result["cells"]] == ["none", "sparsify:rate=0.9"]
    assert [cell["matching"]["chosen"] for cell in result["cells"]] == ["global", "mask"]
    for cell in result["cells"]:
        folder = out / "cells" / cell["key"]
        assert {path.name for path in folder.iterdir()} == {
            "cell.json",
            "images.safetensors",
            "events.jsonl",
            "preview.png",
        }
        assert [row["iteration"] for row in cell["history"]] == [10, 20, 30]
        assert cell["metrics"]["psnr"] > 0
        assert cell["baseline"]["psnr"] > 0
        assert cell["knowledge"] == {"labels": "known", "normalisation": True, "auxiliary": False}
        assert cell["status"] == "finished"
    assert result["schema_version"] == 1
    assert (out / "index.html").stat().st_size > 1000
    assert (out / "reconstructions.png").exists()


def test_lpips_without_weights_is_null_with_the_reason(run):
    _, done = run
    cell = json.loads(done.stdout)["cells"][0]
    assert cell["metrics"]["lpips"] is None
    assert "LEAKSCOPE_WEIGHTS" in cell["missing"]["lpips"]


def test_a_finished_run_is_not_run_again(run):
    out, first = run
    times = {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")}
    again = leakscope("audit", *TINY, *DEFENSES, "--out", str(out), "--json")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")} == times
    assert json.loads(again.stdout)["cells"] == json.loads(first.stdout)["cells"]


def test_simulate_then_attack_equals_audit(run, tmp_path):
    _, done = run
    made = leakscope("simulate", str(tmp_path / "client"), *CLIENT)
    assert made.returncode == 0, made.stderr
    files = [str(tmp_path / f"client.{kind}.safetensors") for kind in ("update", "truth")]
    attacked = leakscope("attack", files[0], "--truth", files[1], *ATTACK, "--out", str(tmp_path / "run"), "--json")
    assert attacked.returncode == 0, attacked.stderr
    ours = json.loads(done.stdout)["cells"][0]["metrics"]
    theirs = json.loads(attacked.stdout)["cells"][0]["metrics"]
    assert theirs == ours
    blind = leakscope("attack", files[0], *ATTACK, "--out", str(tmp_path / "blind"), "--json")
    (cell,) = json.loads(blind.stdout)["cells"]
    assert cell["metrics"]["psnr"] is None
    assert cell["metrics"]["l_sim"] == ours["l_sim"]


def test_a_comparison_in_which_nothing_could_be_scored_still_ends_with_its_result(tmp_path):
    (tmp_path / "broken.py").write_text(
        "from dataclasses import dataclass\nfrom leakscope.defenses import DEFENSES\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Broken:\n"
        "    def check(self, victim, training): pass\n"
        "    def __call__(self, update, *, client, seed): raise ValueError('[web] is no markup')\n"
        "DEFENSES['broken'] = Broken\n"
    )
    done = leakscope(
        *("compare", *TINY, "--rounds", "1", "--federation", "2", "--plugin", "broken.py"),
        *("--defense", "broken", "--out", "run", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 3, done.stderr
    assert [cell["status"] for cell in json.loads(done.stdout)["cells"]] == ["failed"]
    assert "Traceback" not in done.stderr


def test_killed_and_started_again_it_ends_with_the_same_numbers(tmp_path):
    options = ("audit", *CLIENT, "--n", "2", "--iterations", "200", "--history", "40", "--attack", "sme")
    whole = json.loads(leakscope(*options, "--out", str(tmp_path / "whole"), "--json").stdout)
    words = command(*options, "--out", tmp_path / "broken", "--json")
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    for _ in range(3000):
        time.sleep(0.02)
        if any('"progress"' in path.read_text() for path in (tmp_path / "broken").rglob("events.jsonl")):
            break
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 130
    assert list((tmp_path / "broken").rglob("checkpoint.pt"))
    resumed = json.loads(leakscope(*options, "--out", str(tmp_path / "broken"), "--json").stdout)
    assert resumed["cells"][0]["metrics"] == whole["cells"][0]["metrics"]
    assert [row["objective"] for row in resumed["cells"][0]["history"]] == [
        row["objective"] for row in whole["cells"][0]["history"]
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audit", "--attack", "nl-smee"), "did you mean 'nl-sme'"),
        (("audit", "--dataset", "fotos"), "did you mean 'photos'"),
        (("audit", "--defense", "clipp:bound=4"), "did you mean 'clip'"),
        (("audit", "--defense", "clip:bounds=4"), "did you mean 'bound'"),
        (("audit", "--model", "cnn-cifr"), "did you mean 'cnn-cifar'"),
        (("audit", "--set", "sme.lr=1"), "sme is not in this run"),
        (("audit", "--attack", "sme", "--set", "sme.lrr=1"), "did you mean 'lr'"),
        (("audit", "--n", "100000"), "100000"),
        (("audit", "--n", "4", "--batch-size", "5"), "larger than --n 4"),
        (("audit", "--lr", "nan"), "--lr nan is not above 0"),
        (("audit", "--epochs", "-1"), "--epochs -1 is not at least 1"),
        (("audit", "--labels", "guessed"), "known"),
        (("audit", "--device", "tpu"), "auto"),
        (("audit", "--batch-size", "0"), "--batch-size 0 is not at least 1"),
        (("audit", "--model", "a[web]b"), "unknown model 'a[web]b'"),
        (("audit", "--w0", "pretrain:batch_size=0"), "batch_size=0 is not above 0"),
        (("simulate", "x", "--defense", "none", "--defense", "clip:bound=1"), "an update file has one defense"),
        (("audit", "--dataset", "cifar100", "--data-root", "/nonexistent"), "/nonexistent"),
        (("attack", "missing.update.safetensors"), "there is no file"),
        (("report", "no-such-run"), "there is no run folder"),
        (("list", "attaks"), "did you mean 'attacks'"),
        (("data", "fetch", "cifar10", "--data-root", "/tmp"), "cifar"),
    ],
)
def test_bad_input_is_explained_without_a_traceback(arguments, words, tmp_path):
    done = leakscope(*arguments, *(("--out", str(tmp_path / "run")) if arguments[0] == "audit" else ()), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bad_input_ends_a_process_with_two_and_nothing_on_stdout(tmp_path):
    done = process("audit", "--attack", "nl-smee", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'nl-sme'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_all_problems_of_a_request_are_listed_at_once(tmp_path):
    done = leakscope(
        *("audit", "--attack", "x", "--defense", "y", "--labels", "z", "--lr", "-1", "--dataset", "q", "--model", "m"),
        *("--device", "tpu", "--executor", "rai", "--workers", "0"),
        cwd=tmp_path,
    )
    assert done.stderr.count("error") >= 9


@pytest.mark.parametrize("kind", ["attacks", "defenses", "datasets", "models", "metrics"])
def test_lists_are_json_objects_with_names(kind):
    rows = json.loads(leakscope("list", kind, "--json").stdout)
    assert all(row["name"] for row in rows)
    if kind == "attacks":
        assert {"ig", "sme", "nl-sme", "span-sme"} <= {row["name"] for row in rows}


def test_doctor_looks_at_everything():
    findings = json.loads(leakscope("doctor", "--json").stdout)
    assert {"leakscope", "device", "threads", "bfloat16", "cifar100", "LPIPS weights"} <= {
        row["name"] for row in findings
    }
