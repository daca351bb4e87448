"""A Ray cluster of two nodes on loopback; run by test_ray.py in a process of its own.

    python two_nodes.py OUT

Three cells and a fourth whose model ends its process. The second node is killed once both are at work.
Prints one JSON document.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

# on loopback, silent, and no nicer than others: on a busy machine nice workers would hardly run at all
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")

from ray.cluster_utils import Cluster

from leakscope.audits.audit import run_cells
from leakscope.cells.request import Request
from leakscope.cells.run import run_cell
from leakscope.runs.executors import choose_executor

NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "memory": 4 << 30, "object_store_memory": 80 << 20}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    second = cluster.add_node(**NODE)
    request = Request(model="cnn-mnist", n=2, epochs=1, attacks=["sme"], iterations=12, history=6, clients=3)
    cells = request.cells()
    deadly = cells[0].but(model="deadly:model")
    at_work: set[str] = set()
    lost: list[int] = []

    def notice(event: dict[str, Any]) -> None:
        if event["event"] == "start":
            at_work.add(event["key"])
        if event["event"] == "end":
            at_work.discard(event["key"])
        if not lost and len(at_work) == 2:
            lost.append(len(at_work))
            cluster.remove_node(second, allow_graceful=False)

    execute = choose_executor("ray", ray_address=cluster.address)
    result = run_cells([*cells, deadly], Path(sys.argv[1]), request, execute=execute, command="test", notice=notice)
    cluster.shutdown()
    here = dict(run_cell(cells[0]).record.metrics)
    print(json.dumps({"lost": lost, "complete": result.complete, "cells": list(result.cells), "here": here}))


if __name__ == "__main__":
    main()
