"""A stand-in for `leakscope audit` in tests of the dashboard's own conduct: counts, and keeps its state when asked.

It writes the run folder as the audit does: a plan, events, a checkpoint when interrupted, a record when done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

TOTAL = int(os.environ.get("STAND_IN_ITERATIONS", "40"))


def main() -> int:
    """Exit code 130 when interrupted, 0 when done."""
    given = sys.argv[1:]
    out = Path(given[given.index("--out") + 1])
    if "--seed" in given and given[given.index("--seed") + 1] == "666":
        print("error: this seed is not allowed", file=sys.stderr)
        return 2
    asked = []
    signal.signal(signal.SIGINT, lambda *_: asked.append(True))
    place = out / "cells" / "cell0"
    place.mkdir(parents=True, exist_ok=True)
    facts = {
        "key": "cell0",
        "attack": "sme",
        "defense": "none",
        "dataset": "photos",
        "model": "cnn",
        "iterations": TOTAL,
    }
    (out / "plan.json").write_text(json.dumps({"schema_version": 1, "command": " ".join(given), "cells": [facts]}))
    checkpoint = place / "checkpoint"
    start = int(checkpoint.read_text()) if checkpoint.exists() else 0
    for iteration in range(start, TOTAL + 1):
        event = {
            "event": "progress",
            "time": time.time(),
            "iteration": iteration,
            "iterations": TOTAL,
            "worker": os.getpid(),
        }
        with (place / "events.jsonl").open("a") as file:
            file.write(json.dumps({**event, "psnr": 10 + iteration}) + "\n")
        if asked:
            checkpoint.write_text(str(iteration))
            return 130
        time.sleep(0.05)
    cell = {**facts, "status": "finished", "metrics": {"psnr": 20.0}, "notes": {"start": start}}
    (place / "cell.json").write_text(json.dumps(cell))
    result = {"schema_version": 1, "command": " ".join(given), "cells": [cell], "summary": {}}
    (out / "result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
