"""Put what `leakscope reproduce` has run into results/, where README and docs are rendered from.

    python benchmarks/collect.py table9 runs/reproduce-table9 [RUN ...]

Writes results/table9.json. Rows of cells that were not run again stay, each with the commit that made it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from leakscope.paper import NAMES
from leakscope.paper.results import read_file, write_results

ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    chosen = parser.parse_args()
    if unfinished := [str(run) for run in chosen.runs if not (run / "results.json").exists()]:
        parser.error(f"no results.json yet in {', '.join(unfinished)}; `leakscope reproduce` writes it at its end")
    path = chosen.results / f"{chosen.name}.json"
    files = [*([path] if path.exists() else []), *(run / "results.json" for run in chosen.runs)]
    rows = {row["key"]: row for file in files for row in read_file(file)}
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    traces = {one["key"]: one for content in contents for one in content.get("trajectories", [])}
    write_results(
        path,
        list(rows.values()),
        command=f"leakscope reproduce {chosen.name}",
        versions=contents[-1]["versions"],
        trajectories=list(traces.values()),
    )
    print(f"results/{path.name}: {len(rows)} cells, {len(traces)} trajectories")


if __name__ == "__main__":
    main()
