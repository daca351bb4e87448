"""Labels that were not granted: counted from the update, then refined with the images."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from leakscope.labels import expand, recover_counts, refine_counts, relabel
from leakscope.observation.firewall import Observation


@dataclass(frozen=True)
class Labelling:
    """Counts labels again by simulating the client on the current reconstruction, at the parts of the run in `at`."""

    observation: Observation
    at: tuple[float, ...] = (0.3, 0.6)

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """(N,) labels whose counts explain the update of the last layer given the images (N, C, H, W) in [0, 1]."""
        seen = self.observation
        counts = refine_counts(
            seen.victim, seen.w0, seen.delta, seen.training, images.cpu(), labels.cpu(), seen.normalisation
        )
        return relabel(labels.cpu(), counts).to(labels.device)


def find_labels(observation: Observation) -> tuple[Observation, Labelling | None]:
    """The observation with recovered labels, where they are to be recovered, and what refines them."""
    if observation.labels is not None or observation.knowledge.labels != "recovered":
        return observation, None
    seen = observation
    counts = recover_counts(seen.victim, seen.w0, seen.delta, seen.training, seen.n)
    return replace(observation, labels=expand(counts)), Labelling(observation)
