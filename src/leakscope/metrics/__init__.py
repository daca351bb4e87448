"""How close a reconstruction came to the private images, next to a guess without any information."""

from leakscope.metrics.assign import assign
from leakscope.metrics.baseline import relative_to
from leakscope.metrics.fsim import FSIM, fsim
from leakscope.metrics.identify import IDENTIFIED, IDENTIFIED_COUNT, identified
from leakscope.metrics.l_sim import L_SIM, L_SIM_RAW
from leakscope.metrics.l_sim_fl import L_SIM_FL, l_sim_fl
from leakscope.metrics.lpips import LPIPS, LPIPS_ALEX, lpips
from leakscope.metrics.metric import Metric
from leakscope.metrics.psnr import PSNR, psnr
from leakscope.metrics.ssim import SSIM, ssim

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        PSNR,
        SSIM,
        FSIM,
        LPIPS,
        LPIPS_ALEX,
        *relative_to(SSIM, tables=["report"]),
        *relative_to(LPIPS),
        IDENTIFIED,
        IDENTIFIED_COUNT,
        L_SIM,
        L_SIM_RAW,
        L_SIM_FL,
    )
}
"""In the order in which tables show them. A metric that is named here is computed, listed, explained and shown."""

__all__ = ["METRICS", "Metric", "assign", "fsim", "identified", "l_sim_fl", "lpips", "psnr", "ssim"]
