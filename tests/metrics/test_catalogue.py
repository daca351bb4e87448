from __future__ import annotations

import pytest

from leakscope.errors import InputError
from leakscope.metrics import METRICS, metric


def test_every_metric_explains_itself() -> None:
    for name, entry in METRICS.items():
        assert entry.name == name
        assert entry.description
        assert entry.needs
        assert entry.label


def test_the_metrics_of_the_run_folder_are_all_there() -> None:
    wanted = {"psnr", "ssim", "fsim", "lpips", "lpips_alex", "l_sim", "l_sim_raw", "l_sim_fl", "identified"}
    assert wanted <= set(METRICS)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'psnr'"):
        metric("pnsr")
