"""How close a reconstruction came to the private images, next to a guess without any information."""

from leakscope.metrics.assign import assign
from leakscope.metrics.catalogue import METRICS, Metric, metric
from leakscope.metrics.fsim import fsim
from leakscope.metrics.identify import identified
from leakscope.metrics.intervals import bootstrap_interval, wilson_interval
from leakscope.metrics.l_sim_fl import l_sim_fl
from leakscope.metrics.lpips import lpips
from leakscope.metrics.lpips_weights import find_weights
from leakscope.metrics.psnr import psnr
from leakscope.metrics.score import Replay, score, worst_first
from leakscope.metrics.ssim import ssim

__all__ = [
    "METRICS",
    "Metric",
    "Replay",
    "assign",
    "bootstrap_interval",
    "find_weights",
    "fsim",
    "identified",
    "l_sim_fl",
    "lpips",
    "metric",
    "psnr",
    "score",
    "ssim",
    "wilson_interval",
    "worst_first",
]
