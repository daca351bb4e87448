from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from leakscope.client.training import train
from leakscope.metrics import METRICS, assign, l_sim_fl, psnr, ssim
from leakscope.metrics.lpips_weights import VARIABLE
from leakscope.metrics.score import score, unscored
from leakscope.types import Reconstruction
from reference_images import blurred, crops
from small import small_client

ORDER = [3, 0, 5, 1, 4, 2]


@pytest.fixture(autouse=True)
def no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No LPIPS weights to be found: what is left must not suffer from it."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)


def result(images: Tensor, best: Tensor | None = None) -> Reconstruction:
    labels = torch.zeros(len(images), dtype=torch.int64)
    return Reconstruction(images, images if best is None else best, labels, 0.01, 0.02, 0.005, (), 10, 1.0)


grade = partial(score, download=False)


def test_every_metric_is_that_of_the_assigned_pairs() -> None:
    x, candidates = crops(6), crops(40, seed=9)
    found = blurred(x)[ORDER]
    scores = grade(x, result(found), candidates=candidates)
    assert scores.assignment == assign(x, found)
    assert scores.per_image["psnr"] == pytest.approx(psnr(x, blurred(x)).tolist())
    assert scores.metrics["psnr"] == pytest.approx(float(psnr(x, blurred(x)).mean()), abs=1e-4)
    assert scores.metrics["ssim"] == pytest.approx(float(ssim(x, blurred(x)).mean()), abs=1e-5)
    assert (scores.metrics["l_sim"], scores.metrics["l_sim_raw"], scores.metrics["l_sim_best"]) == (0.01, 0.02, 0.005)


def test_the_order_of_the_reconstructions_changes_nothing() -> None:
    x, candidates = crops(6), crops(40, seed=9)
    straight, mixed = (grade(x, result(blurred(x)[order]), candidates=candidates) for order in (range(6), ORDER))
    assert straight.metrics == pytest.approx(mixed.metrics, abs=1e-5)
    assert straight.per_image.keys() == mixed.per_image.keys()


def test_the_best_iterate_has_an_assignment_of_its_own() -> None:
    x, candidates = crops(6), crops(40, seed=9)
    scores = grade(x, result(blurred(x), x[ORDER]), candidates=candidates)
    assert scores.assignment == (0, 1, 2, 3, 4, 5)
    assert scores.metrics["psnr_best"] == pytest.approx(100)
    assert scores.metrics["ssim_best"] == pytest.approx(1)


def test_a_perfect_copy_is_the_best_of_every_metric() -> None:
    x = crops(6)
    scores = grade(x, result(x[ORDER]), candidates=crops(40, seed=9))
    perfect = {"psnr": 100, "identified_count": 6}
    for name in (name for metric in METRICS.values() for name in metric.names if not name.startswith("l_sim")):
        if (value := scores.metrics[name]) is not None:
            base = name.removesuffix("_best")
            assert value == pytest.approx(perfect.get(base, float(METRICS[base].higher_is_better)), abs=1e-5), name
    assert scores.intervals["identified"] == pytest.approx((0.6097, 1), abs=1e-4)


def test_the_baseline_is_the_better_guess_and_scores_0_relative_to_itself() -> None:
    x, candidates = crops(6), crops(40, seed=9)
    mean_image = candidates.mean(0, keepdim=True)
    mean_colour = mean_image.mean((2, 3), keepdim=True).expand_as(mean_image)
    scores = grade(x, result(mean_image.expand_as(x)), candidates=candidates)
    for guess in (mean_image, mean_colour):
        assert float(psnr(x, guess.expand_as(x)).mean()) <= scores.baseline["psnr"] + 1e-5
        assert float(ssim(x, guess.expand_as(x)).mean()) <= scores.baseline["ssim"] + 1e-5
    assert scores.metrics["relative_ssim"] <= 1e-5
    assert scores.metrics["identified"] <= 1 / 6
    assert scores.baseline["identified"] == pytest.approx(6 / 46)


def test_relative_scores_are_per_image() -> None:
    x, candidates = crops(6), crops(40, seed=9)
    scores = grade(x, result(blurred(x)), candidates=candidates)
    rows = zip(*(scores.per_image[name] for name in ("ssim", "baseline_ssim", "relative_ssim")), strict=True)
    for similarity, guess, relative in rows:
        assert relative == pytest.approx((similarity - guess) / (1 - guess), abs=1e-5)
    assert scores.metrics["relative_ssim_max"] == max(scores.per_image["relative_ssim"])


def test_without_weights_lpips_is_null_with_the_reason() -> None:
    scores = grade(crops(2), result(crops(2)), candidates=crops(40, seed=9))
    for name in ("lpips", "lpips_best", "lpips_alex", "lpips_alex_best", "relative_lpips", "relative_lpips_max"):
        assert scores.metrics[name] is None
        assert "no LPIPS weights at" in scores.missing[name]
    assert "lpips" not in scores.baseline
    assert {name for name, value in scores.metrics.items() if value is None} == set(scores.missing)


@pytest.mark.parametrize("candidates", [None, torch.zeros(0, 3, 32, 32)])
def test_without_candidates_there_is_neither_line_up_nor_baseline(candidates: Tensor | None) -> None:
    scores = grade(crops(4), result(blurred(crops(4))), candidates=candidates)
    assert scores.metrics["psnr"] is not None
    assert scores.baseline == {}
    for name in ("identified", "identified_count", "relative_ssim"):
        assert scores.metrics[name] is None
        assert "no held-out images" in scores.missing[name]


def test_a_candidate_that_is_an_original_does_not_count() -> None:
    x, candidates = crops(4), crops(40, seed=9)
    scores = grade(x, result(x), candidates=torch.cat([candidates, x]))
    assert scores.metrics["identified"] == 1
    assert scores.baseline["identified"] == pytest.approx(4 / 44)


def test_images_too_small_for_a_window_have_no_ssim() -> None:
    x = crops(4, side=8)
    scores = grade(x, result(x), candidates=crops(20, side=8, seed=9))
    assert scores.metrics["psnr"] == pytest.approx(100)
    assert scores.metrics["ssim"] is scores.metrics["relative_ssim"] is None
    assert "does not fit" in scores.missing["ssim"]


def test_a_diverged_attack_gets_no_number() -> None:
    x = crops(4)
    broken = x.clone()
    broken[2, 0, 3, 3] = math.nan
    scores = grade(x, result(broken, x), candidates=crops(40, seed=9))
    assert scores.metrics["psnr"] is None
    assert "diverged" in scores.missing["psnr"]
    assert scores.per_image["psnr"][2] is None
    assert scores.per_image["psnr"][0] == pytest.approx(100)
    assert scores.metrics["identified_count"] == 3
    assert scores.metrics["psnr_best"] == pytest.approx(100)


def test_values_outside_the_range_are_cut_before_scoring() -> None:
    x = crops(4).round()
    scores = grade(x, result(2 * x - 0.5), candidates=crops(40, seed=9))
    assert scores.metrics["psnr"] == pytest.approx(100)


def test_replay_adds_l_sim_fl_and_its_baseline() -> None:
    client = small_client(n=6, batch_size=2)
    w0, batch = client.victim.weights(), client.batch
    delta = train(client, w0).delta
    replay = partial(l_sim_fl, client.victim, w0, delta, client.training, normalisation=batch.normalisation)
    found = Reconstruction(batch.images, batch.images, batch.labels, 0.0, 0.0, 0.0, (), 1, 1.0)
    scores = grade(batch.images, found, candidates=small_client(n=20, seed=1).batch.images, replay=replay)
    assert scores.metrics["l_sim_fl"] < 0.01
    assert scores.baseline["l_sim_fl"] > 3 * scores.metrics["l_sim_fl"]
    assert "l_sim_fl" not in grade(batch.images, found, candidates=None).metrics


def test_every_metric_has_its_keys_in_a_cell_and_no_key_is_without_one() -> None:
    scores = grade(crops(3), result(crops(3)), candidates=crops(10, seed=9))
    keys = {name for metric in METRICS.values() for name in metric.names}
    assert keys - set(scores.metrics) == {"l_sim_fl"}
    assert set(scores.metrics) <= keys


def test_without_the_originals_there_is_what_the_attack_knows_of_itself() -> None:
    assert unscored(result(crops(3))) == {**dict.fromkeys(METRICS), "l_sim": 0.01, "l_sim_raw": 0.02}


def test_the_inputs_are_left_alone() -> None:
    x, y, candidates = crops(4), blurred(crops(4)), crops(10, seed=9)
    kept = [images.clone() for images in (x, y, candidates)]
    grade(x, result(y), candidates=candidates)
    assert all(torch.equal(a, b) for a, b in zip((x, y, candidates), kept, strict=True))
