"""What an attack sees of a small real client."""

from __future__ import annotations

from leakscope.attacks.watch import Watch
from leakscope.client.training import Client, train
from leakscope.observation.firewall import Observation, observe
from leakscope.types import Knowledge
from small import small_client


def tiny_client(*, n: int = 4, **options: object) -> Client:
    """Four images of 12x12 in mini-batches of two: a test takes milliseconds."""
    return small_client(n=n, **{"batch_size": min(2, n), **options})  # type: ignore[arg-type]


def tiny_observation(client: Client | None = None, **knowledge: object) -> Observation:
    client = client or tiny_client()
    update = train(client, client.victim.weights())
    return observe(
        update,
        client.victim,
        knowledge=Knowledge(**knowledge),  # type: ignore[arg-type]
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )


class Interrupting(Watch):
    """Takes a checkpoint after every iteration and stops after `after` of them."""

    def __init__(self, after: int) -> None:
        self.after, self.seen, self.state = after, 0, None

    def tick(self, *_: int) -> None:
        self.seen += 1

    def keep(self, checkpoint):
        self.state = checkpoint()

    def stop(self) -> bool:
        return self.seen >= self.after
