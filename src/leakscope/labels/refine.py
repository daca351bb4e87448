"""Better counts from a reconstruction: its simulated training tells the softmax mass."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.client.training import Client, Gradients, batch_gradient, train
from leakscope.labels.counting import largest_remainder
from leakscope.labels.evidence import Evidence
from leakscope.types import ClientBatch, LocalTraining, Normalisation, Weights
from leakscope.victims import Victim
from leakscope.victims.head import embeddings


def refine_counts(
    victim: Victim,
    w0: Weights,
    delta: Weights,
    training: LocalTraining,
    images: Tensor,
    labels: Tensor,
    normalisation: Normalisation,
    *,
    seed: int = 0,
) -> Tensor:
    """Counts (K,) int64 for images (N, C, H, W) in [0, 1] with labels (N,) or soft labels (N, K).

    The client is simulated on the reconstruction, in a batch order of our own. The softmax mass S_c that it shows
    along its path goes into n_c = S_c - (N / T) G_b[c]. Without a bias every image counts with its sum of features.
    """
    evidence = Evidence(victim, w0, delta, training, len(images))
    batch = ClientBatch(images.detach(), labels.detach(), victim.classes, normalisation, "reconstruction")
    mass, size = simulated_mass(evidence, Client(victim, batch, training, seed))
    return largest_remainder((mass - evidence.signal * (evidence.n / evidence.steps)) / size, evidence.n)


def simulated_mass(evidence: Evidence, client: Client) -> tuple[Tensor, Tensor]:
    """S (K,), each step weighted by N / T, and the mean size of an image: 1, or its sum of features without a bias."""
    steps: list[tuple[Tensor, Tensor]] = []
    plain = evidence.bias is not None

    def watch(victim: Victim, weights: Weights, buffers: Weights, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            p = victim.call(weights, buffers, x).cpu().double().softmax(dim=1)
            size = torch.ones(len(x), dtype=p.dtype)
            if not plain:
                size = embeddings(victim, evidence.head, weights, buffers, x).cpu().double().sum(dim=1)
        steps.append(((size[:, None] * p).mean(dim=0), size.mean()))
        return batch_gradient(victim, weights, buffers, x, y)

    observed: Gradients = watch
    train(client, evidence.w0, gradients=observed)
    mass, size = (torch.stack(parts) for parts in zip(*steps, strict=True))
    return mass.mean(dim=0) * evidence.n, size.mean()
