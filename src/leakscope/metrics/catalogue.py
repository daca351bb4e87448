"""What each number means: read by `leakscope list metrics`, tables and reports."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.errors import InputError, unknown


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number of a result: how to read it, and what it takes to compute it."""

    name: str
    label: str
    higher_is_better: bool
    """Better for the attacker: the reconstruction is closer."""
    best: float | None
    """The value of a perfect reconstruction, where there is one."""
    description: str
    needs: str = "the originals"
    unit: str = ""
    digits: int = 4

    def show(self, value: float | None) -> str:
        """The value as tables print it, a dash where there is none.

        >>> METRICS["psnr"].show(27.1284), METRICS["lpips"].show(None)
        ('27.13 dB', '–')
        """
        if value is None:
            return "–"
        return f"{value:.{self.digits}f}" + (f" {self.unit}" if self.unit else "")


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            name="psnr",
            label="PSNR",
            higher_is_better=True,
            best=100.0,
            unit="dB",
            digits=2,
            description="mean over images of 10 log10(1 / MSE); identical images are given 100 dB",
        ),
        Metric(
            name="ssim",
            label="SSIM",
            higher_is_better=True,
            best=1.0,
            description="structural similarity, 11x11 Gaussian window of sigma 1.5, no padding",
        ),
        Metric(
            name="fsim",
            label="FSIM",
            higher_is_better=True,
            best=1.0,
            description="feature similarity, FSIMc for colour; unrelated noise still scores about 0.6",
        ),
        Metric(
            name="lpips",
            label="LPIPS (VGG)",
            higher_is_better=False,
            best=0.0,
            needs="the originals and LPIPS weights",
            description="learned perceptual distance v0.1, VGG16, sides below 64 enlarged to 64",
        ),
        Metric(
            name="lpips_alex",
            label="LPIPS (AlexNet)",
            higher_is_better=False,
            best=0.0,
            needs="the originals and LPIPS weights",
            description="learned perceptual distance v0.1, AlexNet, sides below 64 enlarged to 64",
        ),
        Metric(
            name="identified",
            label="identified",
            higher_is_better=True,
            best=1.0,
            needs="the originals and held-out images of the same data set",
            description="fraction of originals nearer to their reconstruction than all held-out images",
        ),
        Metric(
            name="identified_count",
            label="identified images",
            higher_is_better=True,
            best=None,
            needs="the originals and held-out images of the same data set",
            digits=0,
            description="number of originals that were identified",
        ),
        Metric(
            name="relative_ssim",
            label="relative SSIM",
            higher_is_better=True,
            best=1.0,
            needs="the originals and held-out images of the same data set",
            description="SSIM beyond a guess without information: 0 = the guess, 1 = a perfect copy",
        ),
        Metric(
            name="relative_ssim_max",
            label="relative SSIM, worst image",
            higher_is_better=True,
            best=1.0,
            needs="the originals and held-out images of the same data set",
            description="the same for the most leaked image",
        ),
        Metric(
            name="relative_lpips",
            label="relative LPIPS",
            higher_is_better=True,
            best=1.0,
            needs="the originals, held-out images of the same data set and LPIPS weights",
            description="1 - LPIPS beyond a guess without information: 0 = the guess, 1 = a copy",
        ),
        Metric(
            name="relative_lpips_max",
            label="relative LPIPS, worst image",
            higher_is_better=True,
            best=1.0,
            needs="the originals, held-out images of the same data set and LPIPS weights",
            description="the same for the most leaked image",
        ),
        Metric(
            name="l_sim",
            label="L_sim",
            higher_is_better=False,
            best=0.0,
            needs="the attack",
            description="the attack's own final 1 - cos, calibration applied, priors left out",
        ),
        Metric(
            name="l_sim_raw",
            label="L_sim without calibration",
            higher_is_better=False,
            best=0.0,
            needs="the attack",
            description="the attack's own final 1 - cos without calibration and priors",
        ),
        Metric(
            name="l_sim_fl",
            label="L_sim^FL",
            higher_is_better=False,
            best=0.0,
            needs="the model, its update and the training settings",
            description="1 - cos between the update and that of FedAvg run on the reconstruction",
        ),
    )
}


def metric(name: str) -> Metric:
    """The metric of a result's key; `psnr_best` is PSNR of the iterate with the lowest objective.

    >>> metric("psnr_best").label, metric("psnr_best").higher_is_better
    ('PSNR (best by objective)', True)
    """
    base = name.removesuffix("_best")
    if base not in METRICS:
        raise InputError(unknown("metric", name, METRICS))
    found = METRICS[base]
    return found if base == name else replace(found, name=name, label=f"{found.label} (best by objective)")
