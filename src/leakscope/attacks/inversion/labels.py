"""Which feature vector has which label: from what each adds to the update of the layer behind it."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakscope.attacks.known import Known
from leakscope.labels.evidence import repetitions


def pulls(known: Known, w: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax (k, K) of features (k, F) at the weights w, and d logit_c / d output (K, k, m) of the layer."""
    layer = known.module.get_submodule(str(known.feature_layer))
    named = known.split(w)
    bias = named.get(f"{known.feature_layer}.bias")
    output = torch.nn.functional.linear(features, named[f"{known.feature_layer}.weight"], bias).requires_grad_()
    handle = layer.register_forward_hook(lambda *_: output)
    try:
        nothing = output.new_zeros(len(features), *known.shape)
        logits = torch.func.functional_call(known.module, {**named, **known.buffers}, (nothing,))
    finally:
        handle.remove()
        known.tape.pop("features", None)
    slopes = [torch.autograd.grad(logits[:, c].sum(), output, retain_graph=True)[0] for c in range(known.classes)]
    return torch.softmax(logits.detach(), dim=1), torch.stack(slopes)


def outer_products(known: Known) -> tuple[Tensor, Tensor]:
    """dW (m, F) and db (m,) of the first fully connected layer, without what weight decay has added to them."""
    settings, steps = known.training, known.training.steps(known.n)
    decay = settings.lr * settings.weight_decay * steps * repetitions(settings.momentum, steps)
    named = known.split(known.delta - decay * (known.w0 - known.delta / 2) if decay else known.delta)
    return named[f"{known.feature_layer}.weight"], named[f"{known.feature_layer}.bias"]


def likeness(known: Known, features: Tensor) -> Tensor:
    """(k, K): the cosine of what image i added to the layer's output and what it adds with label c.

    dW = C Z V^T with features A = Z V^T, so C = dW A^+ holds the sum of each image's gradients over all steps.
    """
    added = (outer_products(known)[0].cpu().double() @ torch.linalg.pinv(features.cpu().double())).T
    p, slopes = pulls(known, known.w0 - known.delta / 2, features)
    gradients = torch.einsum("kc,ckm->km", p, slopes) - slopes
    return torch.cosine_similarity(gradients, added.to(gradients)[None], dim=2).T


def owners(alike: Tensor, labels: Tensor) -> list[int]:
    """For each feature vector (row of `alike` (k, K)) its place among the labels (N,) or soft labels (N, K), N >= k."""
    weights = torch.nn.functional.one_hot(labels, alike.shape[1]) if labels.dim() == 1 else labels
    fits = alike @ weights.to(alike).T
    rows, places = linear_sum_assignment(-fits.cpu().numpy())
    return [int(place) for _, place in sorted(zip(rows, places, strict=True))]
