"""FSIM and FSIMc, similarity of phase congruency and gradients (Zhang et al., IEEE TIP 2011)."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.metrics.metric import Metric, of_pairs
from leakscope.metrics.pairs import UnavailableError, check_pair, in_slices

SCALES, ORIENTATIONS = 4, 4
SHORTEST_WAVE, WAVE_FACTOR, BANDWIDTH = 6, 2, 0.55
ANGULAR_SIGMA = math.pi / (ORIENTATIONS * 1.2)
NOISE_SIGMAS, NOISE_OVERESTIMATE = 2.0, 1.7
T_PHASE, T_GRADIENT, T_CHROMA, CHROMA_POWER = (
    0.85,
    160.0,
    200.0,
    0.03,
)  # section IV-B of the paper, for 0..255
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))
FLAT = 1e-6  # amplitude below which an image has no features: phase congruency 0 instead of 0 / 0


def fsim(x: Tensor, y: Tensor) -> Tensor:
    """Feature similarity of each pair: FSIMc for colour (N, 3, H, W), FSIM for grey (N, 1, H, W) -> (N,).

    FSIM = sum S_PC S_G PC_max / sum PC_max; for colour S_PC S_G |S_I S_Q|^0.03. Images of more than 384
    pixels a side are average-pooled by round(side / 256) first. Unlike SSIM it does not fall to 0: unrelated
    noise still scores about 0.6. A pair without any feature (two flat images) is weighted evenly.

    >>> ramp = torch.linspace(0, 1, 32).expand(1, 3, 32, 32)
    >>> fsim(ramp, ramp)
    tensor([1.])
    >>> fsim(ramp, ramp.mT)
    tensor([0.8853])
    """
    check_pair(x, y)
    if x.shape[1] not in (1, 3):
        raise UnavailableError(f"FSIM is defined for grey and colour images, these have {x.shape[1]} channels")
    return in_slices(_fsim, x, y, pixels=1 << 17)


def _fsim(x: Tensor, y: Tensor) -> Tensor:
    pooling = max(1, round(min(x.shape[-2:]) / 256))
    (x_grey, x_chroma), (y_grey, y_chroma) = (
        _luminance_and_chroma(functional.avg_pool2d(255 * z, pooling)) for z in (x, y)
    )
    x_phase, y_phase = phase_congruency(x_grey), phase_congruency(y_grey)
    similarity = _similar(x_phase, y_phase, T_PHASE) * _similar(_scharr(x_grey), _scharr(y_grey), T_GRADIENT)
    if x_chroma.shape[1]:
        chroma = _similar(x_chroma, y_chroma, T_CHROMA).prod(1)
        similarity = similarity * chroma.abs().pow(CHROMA_POWER)
    weight = torch.maximum(x_phase, y_phase) + torch.finfo(x.dtype).tiny ** 0.5
    pooled: Tensor = (similarity * weight).sum((1, 2)) / weight.sum((1, 2))
    return pooled


def _similar(a: Tensor, b: Tensor, constant: float) -> Tensor:
    return (2 * a * b + constant) / (a.square() + b.square() + constant)


def _luminance_and_chroma(images: Tensor) -> tuple[Tensor, Tensor]:
    """(N, 3, H, W) RGB -> Y (N, H, W) and I, Q (N, 2, H, W); grey images have no chroma channels."""
    if images.shape[1] == 1:
        return images[:, 0], images[:, 1:]
    yiq = torch.einsum("kc,nchw->nkhw", torch.tensor(YIQ, dtype=images.dtype, device=images.device), images)
    return yiq[:, 0], yiq[:, 1:]


def _scharr(grey: Tensor) -> Tensor:
    """Gradient magnitude (N, H, W), zero beyond the border."""
    across = torch.tensor([[3.0, 0.0, -3.0], [10.0, 0.0, -10.0], [3.0, 0.0, -3.0]]) / 16
    kernels = torch.stack([across, across.T])[:, None].to(grey)
    return functional.conv2d(grey[:, None], kernels, padding=1).square().sum(1).sqrt()


def phase_congruency(grey: Tensor) -> Tensor:
    """How well the Fourier components agree in phase at each pixel: (N, H, W) -> (N, H, W) in [0, 1)."""
    bank: Tensor = _log_gabor(grey.shape[-2], grey.shape[-1]).to(grey.dtype).to(grey.device)
    spectrum: Tensor = torch.fft.fft2(grey - grey.mean((1, 2), keepdim=True))  # no filter passes the mean
    response: Tensor = torch.fft.ifft2(spectrum[:, None, None] * bank)  # (N, orientation, scale, H, W)
    amplitude = response.abs()
    total = response.sum(2, keepdim=True)
    mean_phase = total / (total.abs() + torch.finfo(grey.dtype).eps)
    aligned = response * mean_phase.conj()
    energy = (aligned.real - aligned.imag.abs()).sum(2)  # cos - |sin| of the deviation from the mean phase
    threshold = _noise_threshold(amplitude[:, :, 0], bank)
    return (energy - threshold).clamp_min(0).sum(1) / (amplitude.sum((1, 2)) + FLAT)


def _noise_threshold(smallest: Tensor, bank: Tensor) -> Tensor:
    """Energy that noise alone would reach, from the median response of the smallest scale: (N, o, 1, 1)."""
    power: Tensor = smallest.square().flatten(2).median(-1).values / math.log(2)
    power = power / bank[:, 0].square().sum((-2, -1))
    kernels: Tensor = torch.fft.ifft2(bank).real * math.sqrt(bank.shape[-2] * bank.shape[-1])
    rayleigh = (power * kernels.sum(1).square().sum((1, 2))).sqrt()
    threshold = rayleigh * (math.sqrt(math.pi / 2) + NOISE_SIGMAS * math.sqrt(2 - math.pi / 2))
    return (threshold / NOISE_OVERESTIMATE)[:, :, None, None]


@lru_cache(maxsize=8)
def _log_gabor(height: int, width: int) -> Tensor:
    """The filters by frequency, (orientation, scale, H, W) with the zero frequency in the corner."""
    rows, columns = torch.meshgrid(_frequencies(height), _frequencies(width), indexing="ij")
    radius, angle = torch.hypot(rows, columns), torch.atan2(-columns, rows)
    low_pass = 1 / (1 + (radius / 0.45) ** 30)
    radius[0, 0] = 1.0
    waves = SHORTEST_WAVE * WAVE_FACTOR ** torch.arange(SCALES)[:, None, None]
    radial = torch.exp(-torch.log(radius * waves).square() / (2 * math.log(BANDWIDTH) ** 2)) * low_pass
    radial[:, 0, 0] = 0.0
    turned = angle - torch.arange(ORIENTATIONS)[:, None, None] * math.pi / ORIENTATIONS
    deviation = torch.atan2(turned.sin(), turned.cos())  # wrapped to (-pi, pi]
    angular = torch.exp(-deviation.square() / (2 * ANGULAR_SIGMA**2))
    return angular[:, None] * radial[None]


def _frequencies(size: int) -> Tensor:
    """-1/2 .. 1/2 along an axis, zero first; an odd size has both ends, as in the authors' code."""
    steps = torch.arange(size, dtype=torch.float64) - size // 2
    zero_first: Tensor = torch.fft.ifftshift(steps / max(1, size - size % 2))
    return zero_first


FSIM = Metric(
    name="fsim",
    label="FSIM",
    description="feature similarity, FSIMc for colour; unrelated noise still scores about 0.6",
    meaning="Agreement of features such as edges; unrelated images still score around 0.6.",
    higher_is_better=True,
    measure=of_pairs(fsim),
    tables=("report", "results"),
)
