"""What a metric declares of itself."""

from __future__ import annotations

import pytest
import torch

from leakscope.metrics import METRICS
from leakscope.metrics.metric import Column


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_explains_itself(name: str) -> None:
    metric = METRICS[name]
    assert metric.name == name
    for words in (metric.label, metric.needs, metric.description):
        assert words
    assert metric.meaning.endswith(".")
    assert metric.digits >= 0


def test_the_metrics_of_the_run_folder_are_all_there() -> None:
    wanted = {"psnr", "ssim", "fsim", "lpips", "lpips_alex", "l_sim", "l_sim_raw", "l_sim_fl", "identified"}
    assert wanted <= set(METRICS)


def test_results_keep_the_papers_metrics_and_those_that_compare_attacks() -> None:
    """What docs are made from: a metric that is dropped here is lost for good."""
    kept = [name for name, metric in METRICS.items() if "results" in metric.tables]
    assert kept == ["psnr", "ssim", "fsim", "lpips", "lpips_alex", "l_sim", "l_sim_raw", "l_sim_fl"]


def test_of_several_guesses_the_one_counts_that_the_metric_likes_best() -> None:
    low, high = torch.tensor([0.1, 0.3]), torch.tensor([0.5, 0.1])
    column = Column(low, guesses=[low, high])
    assert METRICS["ssim"].blind(column) is high
    assert METRICS["lpips"].blind(column) is low
    assert METRICS["ssim"].blind(Column(low)) is None
