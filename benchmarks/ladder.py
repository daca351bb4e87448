"""The line-up on CIFAR-100 and FEMNIST clients, undefended and under each defense, beside the two prototypes of it.

    python benchmarks/ladder.py                        development clients, printed and written to --out
    python benchmarks/ladder.py --report               the reported clients, written to results/ladder.json

Five clients of each data set: CIFAR-100, FEMNIST writers, and FEMNIST clients pooled over writers. --data, --defenses
and --clients take some of them. Rows that are already in the file are kept, so a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import Tensor

from leakscope import data
from leakscope.attacks.drift import features, layer_update, row_space
from leakscope.attacks.known import Known
from leakscope.cells.planning import grid
from leakscope.cells.request import Request
from leakscope.cells.scene import simulated_scene
from leakscope.files import commit, read_object, versions, write_json
from leakscope.lineup import Group, LineUp, Pool, Recognition, draw_pool, line_up, recognise
from leakscope.lineup.gram import products
from leakscope.lineup.line_up import MIDDLE, path
from leakscope.lineup.pool import without_twins
from leakscope.lineup.state import View
from leakscope.observation.firewall import Observation
from leakscope.paper.grid import clients_of

ROOT = Path(__file__).parent.parent
CLIENTS = 5
DEFENSES = (
    *("none", "clip:bound=4", "soteria:rate=0.8", "drop:rate=0.9", "sparsify:rate=0.9", "gaussian:std=0.1"),
    *(f"dpsgd:epsilon={epsilon}" for epsilon in (1000, 100, 10, 1)),
)
SETTINGS = {"n": 50, "epochs": 20, "batch_size": 10, "lr": 0.004}
WRITERS = ("1", "2", "7", "15", "9")
"""Development clients of FEMNIST; those of the other data are seeds 1, 2, ..."""
RIDGE = 0.01
"""Of the prototype that takes references out of a gradient."""
Row = dict[str, Any]


def clients(name: str, *, report: bool) -> list[dict[str, Any]]:
    """Requests of the five clients of a data set, by the name it has in the results."""
    dataset = "cifar100" if name == "cifar100" else "femnist"
    if name == "pooled":
        seeds = [who["seed"] for who in clients_of("cifar100", CLIENTS)] if report else range(1, CLIENTS + 1)
        return [{"dataset": dataset, "seed": seed, "writer": "pooled"} for seed in seeds]
    if report:
        return [{"dataset": dataset, **who} for who in clients_of(dataset, CLIENTS)]
    if name == "cifar100":
        return [{"dataset": dataset, "seed": seed} for seed in range(1, CLIENTS + 1)]
    return [{"dataset": dataset, "seed": int(writer), "writer": writer} for writer in WRITERS]


def scene_of(dataset: data.Dataset, who: dict[str, Any], defense: str, **more: Any) -> tuple[Observation, Pool]:
    request = Request(**who, **{**SETTINGS, **more}, defenses=(defense,))
    scene = simulated_scene(grid(request, dataset.name, dataset.fingerprint)[0], data_root=None)
    assert scene.truth is not None
    return scene.observation, draw_pool(dataset, scene.truth.batch, seed=who["seed"])


def measure(seen: Observation, pool: Pool) -> Row:
    found = line_up(seen, pool)
    (weighing,) = found.rounds
    return {
        "scores": {
            "members": rounded(found.members),
            "others": rounded(found.groups[0].others),
            "elsewhere": [] if found.groups[1] is None else rounded(found.groups[1].others),
        },
        **told(found.membership),
        "hand": None if found.hand is None else told(found.hand),
        "prototypes": prototypes(seen, pool, found),
        "noise": weighing.noise,
        "ratio": weighing.ratio,
        "share": weighing.share,
        "references": found.references,
        "twins": found.twins,
        "seconds": round(found.seconds, 1),
    }


def told(found: Recognition) -> Row:
    return {
        "counts": [found.members, found.others],
        "auc": found.auc,
        "tpr1": found.tpr1,
        "intervals": {name: list(pair) for name, pair in found.intervals.items()},
        "missing": dict(found.missing),
    }


def rounded(scores: Tensor) -> list[float]:
    return [float(f"{score:.4g}") for score in scores.tolist()]


def prototypes(seen: Observation, pool: Pool, found: LineUp) -> Row:
    """AUC and true positives at 1 % of what the line-up was made from, on the same images.

    span: the share of an image's features at w0 - delta/2 inside the top N directions of the first fully connected
    layer's update. whitened: g' = g - R^T (R R^T + 0.01 mean)^-1 R g, score <g', delta> / |g'|, R the references'.
    """
    pool, _ = without_twins(pool)
    parts = [part for part in (pool.members, pool.others, pool.references) if part is not None]
    x = torch.cat([seen.normalisation.apply(part.images) for part in parts])
    y = torch.cat([part.labels for part in parts if part.labels is not None])
    k = len(pool.members) + len(pool.others)
    both = products([View(path(seen, [MIDDLE], x)[MIDDLE], x, y)], seen.delta)
    gram, slopes = both.gram, both.slopes
    inner = gram[k:, k:] + RIDGE * gram[k:, k:].diagonal().mean() * torch.eye(len(x) - k, dtype=gram.dtype)
    share = torch.linalg.solve(inner, gram[k:, :k])
    left = gram.diagonal()[:k] - 2 * (share * gram[k:, :k]).sum(0) + (share * (gram[k:, k:] @ share)).sum(0)
    scores = {"whitened": (slopes[:k] - share.T @ slopes[k:]) / left.clamp_min(1e-30).sqrt()}
    known = Known.of(seen, torch.device("cpu"))
    if known.feature_layer is not None:
        basis, _ = row_space(layer_update(known), seen.n)
        with torch.no_grad():
            h = features(known, known.w0 - known.delta / 2, x[:k]).double()
        scores["span"] = (h @ basis).square().sum(1) / h.square().sum(1)
    result = {}
    for name, each in scores.items():
        others = each[len(pool.members) :]
        near = others if found.hand is None or pool.own_site is None else others[pool.own_site]
        told = recognise([Group(each[: len(pool.members)], near)])
        result[name] = {"auc": told.auc, "tpr1": told.tpr1}
    return result


def groups(rows: list[Row]) -> Iterator[Group]:
    for row in rows:
        yield Group(torch.tensor(row["scores"]["members"]), torch.tensor(row["scores"]["others"]))


def hands(rows: list[Row]) -> Iterator[Group]:
    for row in rows:
        yield Group(torch.tensor(row["scores"]["others"]), torch.tensor(row["scores"]["elsewhere"]))


def summary(rows: list[Row]) -> list[Row]:
    """Every data set and defense, pooled over its clients."""
    found = []
    for key in dict.fromkeys((row["data"], row["defense"]) for row in rows):
        some = [row for row in rows if (row["data"], row["defense"]) == key]
        hand = recognise(list(hands(some)))
        best = {
            name: sum(row["prototypes"][name]["auc"] for row in some) / len(some)
            for name in ("span", "whitened")
            if all(name in row["prototypes"] for row in some)
        }
        found.append({
            "data": key[0],
            "defense": key[1],
            "clients": len(some),
            **told(recognise(list(groups(some)))),
            "hand": told(hand) if hand.auc is not None else None,
            "prototypes": best,
        })  # fmt: skip
    return found


def show(rows: list[Row]) -> None:
    def number(value: float | None) -> str:
        return "   -" if value is None else f"{value:.3f}"

    print(f"{'data':9} {'defense':20} clients   AUC  [95 %]          TPR1   hand   span   whitened")
    for row in summary(rows):
        low, high = row["intervals"].get("auc", (0, 0))
        best = row["prototypes"]
        print(
            f"{row['data']:9} {row['defense']:20} {row['clients']:7d}  {number(row['auc'])} [{low:.3f}, {high:.3f}]  "
            f"{number(row['tpr1'])}  {number(row['hand'] and row['hand']['auc'])}  {number(best.get('span'))}  "
            f"{number(best.get('whitened'))}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="the reported clients")
    parser.add_argument("--data", nargs="+", default=["cifar100", "femnist", "pooled"])
    parser.add_argument("--defenses", nargs="+", default=list(DEFENSES))
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    out = asked.out or (ROOT / "results/ladder.json" if asked.report else Path("runs/ladder.json"))
    rows: list[Row] = read_object(out)["rows"] if out.exists() else []
    done = {(row["data"], row["defense"], row["client"]) for row in rows}
    loaded = {name: data.load(name) for name in ("cifar100", "femnist")}
    for defense in asked.defenses:
        for name in asked.data:
            for who in clients(name, report=asked.report)[: asked.clients]:
                key = name, defense, who["writer"] if name == "femnist" else str(who["seed"])
                if key in done:
                    continue
                began = time.perf_counter()
                row = measure(*scene_of(loaded[who["dataset"]], who, defense))
                rows.append({"data": key[0], "defense": key[1], "client": key[2], **row})
                best = {short: f"{value['auc']:.3f}" for short, value in row["prototypes"].items()}
                spent = f"{row['seconds']} of {time.perf_counter() - began:.0f} s"
                print(*key, f"AUC {row['auc']:.3f}, TPR1 {row['tpr1']}, prototypes {best}, {spent}", flush=True)
                head = {"command": "python benchmarks/ladder.py --report", "commit": commit(), "versions": versions()}
                write_json(out, {**head, "settings": SETTINGS, "summary": summary(rows), "rows": rows})
    show(rows)


if __name__ == "__main__":
    main()
