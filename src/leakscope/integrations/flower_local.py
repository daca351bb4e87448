"""A Flower app in this process: no Ray, no daemon, no network. For laptops and tests; `flwr run` is for all else.

It stands on parts of Flower that are not public (marked below), which is why the extra holds Flower to one release.
"""

from __future__ import annotations

import copy
import importlib
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import Run  # not public
from flwr.supercore.task_identity import TaskIdentity  # not public

RUN = 1


class LocalGrid(Grid):
    """Delivers every message at once, as a copy, to a client app in this process, one client after the other."""

    def __init__(self, app: ClientApp, *, clients: int, run_config: Mapping[str, Any]) -> None:
        self.app = app
        self.contexts = {
            partition + 1: Context(
                run_id=RUN,
                node_id=partition + 1,
                node_config={"partition-id": partition, "num-partitions": clients},
                state=RecordDict(),
                run_config=dict(run_config),
            )
            for partition in range(clients)
        }
        self.replies: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """There is only one."""

    @property
    def run(self) -> Run:
        return Run.create_empty(RUN)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        names = []
        for message in messages:
            name = f"message-{len(self.replies)}"
            arrived = copy.deepcopy(message)
            arrived.metadata.__dict__["_message_id"] = name  # not public: the link sets it
            node = arrived.metadata.dst_node_id
            self.replies[name] = copy.deepcopy(self.app(arrived, self.contexts[node]))
            names.append(name)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.replies[name] for name in message_ids]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:  # noqa: ARG002
        return self.pull_messages(self.push_messages(messages))


def run_apps(
    server: ServerApp, client: ClientApp, *, clients: int, run_config: Mapping[str, Any] | None = None
) -> None:
    """Run a server app against `clients` nodes that each run the client app."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 0, RUN  # not public: the launcher sets it
    config = dict(run_config or {})
    context = Context(run_id=RUN, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    server(LocalGrid(client, clients=clients, run_config=config), context)


def run_app(folder: Path, *, clients: int = 2, run_config: Mapping[str, Any] | None = None) -> None:
    """Run the app that FOLDER/pyproject.toml describes, as `flwr run FOLDER` would; `run_config` overrides its own."""
    described = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    config = {**flat(described.get("config", {})), **(run_config or {})}
    sys.path.insert(0, str(folder))
    try:
        for part in described["components"].values():
            _forget(part.partition(".")[0])
        server, client = (_load(described["components"][part]) for part in ("serverapp", "clientapp"))
    finally:
        sys.path.remove(str(folder))
    run_apps(server, client, clients=clients, run_config=config)


def flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"leakscope": {"every": 10}} -> {"leakscope.every": 10}, as Flower hands it to apps."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return found


def _forget(package: str) -> None:
    """Every run imports its app anew, as a process of its own would; apps of other folders may have the same name."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


def _load(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
