"""Flower: record what leaves a client (`LeakageRecorder`) or what reaches the server (`LeakageAudit`).

A recorder never breaks a round: what it cannot record it says in Flower's log, and the message goes on untouched.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakscope.errors import InputError, refusal
from leakscope.integrations.facts import READERS, TRAINING, Facts, declared, hint, observed
from leakscope.integrations.recording import Private, as_private, as_recorded, as_update, write
from leakscope.integrations.watching import Seen, plain, watching
from leakscope.types import Weights

try:
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp.typing import ClientAppCallable
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Result, Strategy
except ImportError as error:
    raise refusal(f"the recorder needs Flower: {error}", fix="pip install 'leakscope[flower]'") from error

CONVENTIONAL = {
    "lr": ("lr", "learning-rate", "learning_rate"),
    "epochs": ("local-epochs", "local_epochs", "epochs"),
    "batch_size": ("batch-size", "batch_size"),
}
"""What Flower's own examples call these, in the message or in the run configuration."""
ROUND = ("server-round", "server_round", "round")
SAMPLES = ("num-examples", "num_examples")

log = logging.getLogger("flwr")
"""Flower's own, so that people see it where they look."""

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """Where to record, how often, and what is declared about the training."""

    out: Path
    every: int
    """1 records every round, 10 the rounds 1, 11, 21, ..."""
    facts: Facts

    def now(self, run_config: Settings) -> Plan:
        """What the run says wins: `leakscope.every` in its configuration, else LEAKSCOPE_FLOWER_EVERY, and so on.

        Read at each call: an app is built when it is imported, before there is a run to configure it.
        """
        said = {name: _setting(name, run_config) for name in ("out", "every", *READERS)}
        told = {name: value for name, value in said.items() if value not in (None, "")}
        out, every = Path(str(told.pop("out", self.out))), int(told.pop("every", self.every))
        if every < 1:
            raise refusal(f"every = {every} is not at least 1", fix="every=10")
        return Plan(out, every, declared(told).over(self.facts))

    def due(self, round_: int | None) -> bool:
        return round_ is None or (round_ - 1) % self.every == 0


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One client in one round: what it was sent, what it sent back, and what was seen in between."""

    sent: Weights
    reply: RecordDict
    name: str
    """Of the file."""
    round: int | None
    client: str
    tag: str | None = None
    settings: tuple[Settings, ...]
    """Where conventional names are looked up: the message's configuration, then that of the run."""
    seen: Seen = field(default_factory=Seen)


class LeakageRecorder:
    """A client mod that writes down what the mods and the app behind it send back.

    `ClientApp(mods=[LeakageRecorder("updates"), LocalDpMod(...)])`: the first mod is the outermost, so this one sees
    what really leaves the client, noise included. Behind another mod it sees the update before that one; give the two
    a `tag` each to compare them. How the client trains is watched, not asked for: only what cannot be seen
    (`normalisation`, `defense`, `model`, see `Facts`) is declared. `truth(context)` gives the private images for
    scoring; without it no raw data is stored.
    """

    def __init__(
        self,
        out: str | os.PathLike[str] = "updates",
        *,
        every: int = 1,
        tag: str = "",
        truth: Callable[[Context], Sequence[Any]] | None = None,
        **facts: Any,
    ) -> None:
        self.plan = Plan(Path(out), every, declared(facts))
        self.tag = tag
        self.truth = truth

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        sent: Weights = {}
        with _reporting():
            plan = self.plan.now(context.run_config)
            if _is_training(message) and plan.due(round_of(message)):
                sent = tensors(message.content)  # a copy, before anything can change it
        if not sent:
            return call_next(message, context)
        with watching(plain(dict(sent))) as seen:
            reply = call_next(message, context)
        with _reporting():
            if not reply.has_error():
                private = None if self.truth is None else as_private(self.truth(context))
                record(plan, self._exchange(message, context, sent, reply, seen), private)
        return reply

    def _exchange(self, message: Message, context: Context, sent: Weights, reply: Message, seen: Seen) -> Exchange:
        client = str(context.node_config.get("partition-id", context.node_id))
        round_ = round_of(message)
        when = f"round-{round_:03d}" if round_ is not None else f"message-{message.metadata.message_id[:8]}"
        return Exchange(
            sent=sent,
            reply=reply.content,
            name=".".join(filter(None, (f"client-{client}", when, self.tag))),
            round=round_,
            client=client,
            tag=self.tag or None,
            settings=(*message.content.config_records.values(), context.run_config),
            seen=seen,
        )

    def __repr__(self) -> str:
        return f"LeakageRecorder({str(self.plan.out)!r}, every={self.plan.every}, tag={self.tag!r})"


class LeakageAudit(Strategy):
    """A strategy that records what a curious server sees of every client, and leaves all else to another one.

    `LeakageAudit(FedAvg(...), every=10)`. A server sees no training loop: what the message's configuration does not
    tell under a conventional name (`lr`, `local-epochs`, `batch-size`) is declared, `shape` always; `run_config`
    takes the run's own.
    """

    def __init__(
        self,
        strategy: Strategy,
        out: str | os.PathLike[str] = "updates",
        *,
        every: int = 1,
        run_config: Settings | None = None,
        **facts: Any,
    ) -> None:
        self.strategy = strategy
        self.plan = Plan(Path(out), every, declared(facts))
        self.run_config = run_config or {}
        self.sent: dict[int, RecordDict] = {}
        """What each node was sent in this round."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The wrapped strategy's messages, remembered."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self.sent = {message.metadata.dst_node_id: message.content for message in messages}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Record every reply, then let the other strategy aggregate."""
        replies = list(replies)
        with _reporting():
            plan = self.plan.now(self.run_config)
            for reply in replies if plan.due(server_round) else ():
                with _reporting():
                    self._record(plan, server_round, reply)
        self.sent = {}
        return self.strategy.aggregate_train(server_round, replies)

    def _record(self, plan: Plan, server_round: int, reply: Message) -> None:
        node = reply.metadata.src_node_id
        if reply.has_error() or node not in self.sent:
            return
        exchange = Exchange(
            sent=tensors(self.sent[node]),
            reply=reply.content,
            name=f"node-{node}.round-{server_round:03d}",
            round=server_round,
            client=str(node),
            settings=(*self.sent[node].config_records.values(), self.run_config),
        )
        record(plan, exchange)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Delegates to the wrapped strategy."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Delegates to the wrapped strategy."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Delegates to the wrapped strategy."""
        self.strategy.summary()

    def start(self, *args: Any, **kwargs: Any) -> Result:
        """The wrapped strategy's own loop, which may differ from Flower's, run with these methods."""
        return type(self.strategy).start(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "strategy":  # not there yet while this object is being unpickled
            raise AttributeError(name)
        return getattr(self.strategy, name)


def record(plan: Plan, exchange: Exchange, private: Private | None = None) -> None:
    """Write NAME.update.safetensors, or raise an InputError that says what is missing."""
    seen = exchange.seen
    said = plan.facts.over(configured(exchange.settings))
    n = plan.facts.n or _number(SAMPLES, exchange.reply.metric_records.values(), int)
    found = observed(seen, n=n, batch_size=said.batch_size)
    if odd := found.contradictions(plan.facts):
        log.warning("leakscope: the client trains with %s as declared", "; ".join(odd))
    back = tensors(exchange.reply)
    facts = replace(found.over(said), model=plan.facts.model or hint(seen))
    facts = facts.over(Facts(classes=_outputs(back)))
    update = as_update(exchange.sent, back, facts, seen)
    path = plan.out / f"{exchange.name}.update.safetensors"
    who, producer = {"client": exchange.client, "tag": exchange.tag}, f"flower {version('flwr')}"
    content = as_recorded(update, facts, producer=producer, round_=exchange.round, private=private, **who)
    write(path, content, private)
    log.info("leakscope: recorded %s", path)


def configured(sources: Iterable[Settings]) -> Facts:
    """lr, epochs and batch size where a configuration tells them under the names that Flower's examples use."""
    every = list(sources)
    return Facts(**{name: _number(names, every, TRAINING[name].kind) for name, names in CONVENTIONAL.items()})


def round_of(message: Message) -> int | None:
    """The server's round, from the message's configuration or, in older apps, from its group."""
    group = message.metadata.group_id
    found = _number(ROUND, message.content.config_records.values(), int)
    return int(group) if found is None and group.isdecimal() else found


def tensors(content: RecordDict) -> dict[str, Tensor]:
    """The model inside a message: its largest array record, as tensors that share no memory with it."""
    arrays = max(content.array_records.values(), key=lambda record: record.count_bytes(), default=ArrayRecord())
    return {name: torch.from_numpy(np.array(array.numpy())) for name, array in arrays.items()}


def _number(names: Iterable[str], sources: Iterable[Settings], kind: type) -> Any:
    found = (source[name] for source in sources for name in names if name in source)
    return next((kind(value) for value in found if isinstance(value, int | float)), None)


def _outputs(back: Weights) -> int | None:
    """Classes by the last layer, where no forward pass was seen."""
    last = next((value for value in reversed(list(back.values())) if value.is_floating_point() and value.dim()), None)
    return None if last is None else len(last)


def _setting(name: str, run_config: Settings) -> Any:
    return run_config.get(f"leakscope.{name.replace('_', '-')}", os.environ.get(f"LEAKSCOPE_FLOWER_{name.upper()}"))


def _is_training(message: Message) -> bool:
    return message.metadata.message_type.partition(".")[0] == "train"


@contextmanager
def _reporting() -> Iterator[None]:
    """Say what went wrong with a recording, also in a person's own `truth`, and let the round go on."""
    try:
        yield
    except (InputError, OSError) as error:  # these speak for themselves
        log.error("leakscope: not recorded: %s", error)
    except Exception as error:
        log.exception("leakscope: not recorded: %s: %s", type(error).__name__, error)
