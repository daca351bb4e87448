"""Render the tables of README and docs from results/*.json, between `<!-- NAME -->` and `<!-- end -->` marks.

python benchmarks/tables.py            write them
python benchmarks/tables.py --check    fail where a page does not show what results/ holds
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from from_results import Known, known_lines
from leakscope.metrics import METRICS
from leakscope.paper import NAMES as TARGETS
from leakscope.paper import read_target
from leakscope.paper.pages import table, verdicts

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARK = re.compile(r"(<!-- ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
NAMES = {"femnist": "FEMNIST", "cifar100": "CIFAR-100", "tiny_imagenet": "Tiny-ImageNet"}
PRIORS = {**NAMES, "organamnist28@64": "OrganAMNIST, enlarged"}
PERCEIVED = ("ssim", "fsim", "lpips")
Row = dict[str, Any]


def read(suite: str) -> dict[str, Any]:
    path = ROOT / "results" / f"{suite}.json"
    result: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"cells": []}
    return result


def mean(values: Iterable[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    spread = f" ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.{digits}f}{spread}"


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def group(cells: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for cell in cells:
        groups[tuple(str(cell[key]) for key in keys)].append(cell)
    return groups


def main_table() -> str:
    paper, rows = read_target("table1"), []
    others = [name for name in paper.metrics if name != "psnr"]
    suites = ("main", "others", "baselines", "diffusion")
    groups = group([cell for suite in suites for cell in read(suite)["cells"]], "dataset", "attack")
    for dataset in ("femnist", "cifar100"):
        for attack in (*paper.attacks, "span-sme"):
            cells = groups.get((dataset, attack), [])
            if not cells:
                continue
            said = paper.reported(f"{NAMES[dataset]}, T = 100", attack)
            row = [NAMES[dataset], f"`{attack}`{cut(cells[0])}", f"{said['psnr'][0]:.2f}" if said else "-"]
            row += [mean((cell[kind]["psnr"] for cell in cells), 2) for kind in ("metrics", "baseline")]
            for name in others:
                ours = mean((cell["metrics"][name] for cell in cells), METRICS[name].digits).split(" ")[0]
                row.append(f"{ours} ({said[name][0]:.{METRICS[name].digits}f})" if said else ours)
            row += [str(cells[0]["iterations"]), str(len(cells))]
            rows.append(row)
    header = ["data", "attack", "paper PSNR", "our PSNR", "knowing nothing"]
    header += [f"{METRICS[name].label} (paper)" for name in others]
    return markdown([*header, "iterations", "clients"], rows)


def cut(cell: Row) -> str:
    """What a reader must be told beside an attack's name: a generator narrower than the published one."""
    width = cell["notes"].get("generator", "").partition(",")[0]
    return f" ({width})" if width else ""


def gain_table() -> str:
    """span-sme against nl-sme, client by client."""
    rows = []
    for dataset in ("femnist", "cifar100"):
        for client, cells in by_client(read("main")["cells"], dataset).items():
            if {"nl-sme", "span-sme"} <= cells.keys():
                rows.append([NAMES[dataset], client, *gain(cells["nl-sme"], cells["span-sme"])])
    header = ["data", "client", "nl-sme dB", "span-sme dB", "gain dB", *(METRICS[name].label for name in PERCEIVED)]
    return markdown([*header, "seconds", "time share"], rows)


def gain(old: Row, new: Row) -> list[str]:
    before, after = old["metrics"], new["metrics"]
    reached = next((seconds for seconds, psnr in new["curve"] if psnr >= before["psnr"]), None)
    pairs = [f"{before[name]:.{METRICS[name].digits}f} → {after[name]:.{METRICS[name].digits}f}" for name in PERCEIVED]
    return [
        f"{before['psnr']:.2f}",
        f"{after['psnr']:.2f}",
        f"{after['psnr'] - before['psnr']:+.2f}",
        *pairs,
        f"{old['seconds']:.0f} → {new['seconds']:.0f}",
        "-" if reached is None else f"{reached / old['seconds']:.0%}",
    ]


def by_client(cells: Iterable[Row], dataset: str) -> dict[str, dict[str, Row]]:
    """client -> attack -> cell."""
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for cell in cells:
        if cell["dataset"] == dataset:
            client = cell["client"]
            found[client.get("writer") or f"seed {client['seed']}"][cell["attack"]] = cell
    return found


def parts_table() -> str:
    """span-sme without one of its parts, against the whole on the same clients."""
    whole = [cell for cell in read("main")["cells"] if cell["attack"] == "span-sme"]
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for cell in read("parts")["cells"]:
        setting = ", ".join(f"{name} {value}" for name, value in cell["settings"].items())
        groups[cell["dataset"], setting].append(cell)
    rows = []
    for (dataset, setting), cells in groups.items():
        seeds = {cell["client"]["seed"] for cell in cells}
        full = [cell for cell in whole if cell["dataset"] == dataset and cell["client"]["seed"] in seeds]
        psnr = [mean([cell["metrics"]["psnr"] for cell in group], 2) for group in (full, cells)]
        rows.append([NAMES[dataset], setting, *psnr, str(len(cells))])
    return markdown(["data", "changed", "span-sme dB", "changed dB", "clients"], rows)


def setting_of(cell: Row) -> str:
    client = cell["client"]
    parts = [NAMES.get(cell["dataset"], cell["dataset"]), cell["model"], f"N={client['n']}", f"E={client['epochs']}"]
    parts += [cell["defense"]] if cell["defense"] != "none" else []
    return ", ".join([*parts, *([f"fused {cell['fuse']}"] if cell["fuse"] else [])])


def settings_table() -> str:
    cells: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for cell in read("span")["cells"]:
        cells[setting_of(cell)][cell["attack"]].append(cell)
    rows = []
    for setting, attacks in cells.items():
        old, new = attacks.get("nl-sme", []), attacks.get("span-sme", [])
        rows.append([
            setting,
            mean((cell["metrics"]["psnr"] for cell in old), 2),
            mean((cell["metrics"]["psnr"] for cell in new), 2),
            str((new or [{"notes": {}}])[0]["notes"].get("span", "-")),
        ])  # fmt: skip
    return markdown(["setting", "nl-sme dB", "span-sme dB", "span"], rows)


def ablation_table() -> str:
    groups: dict[tuple[bool, bool], list[Row]] = defaultdict(list)
    for cell in read("ablation")["cells"]:
        settings = cell["settings"]
        groups[bool(settings.get("trajectory", True)), bool(settings.get("calibration", True))].append(cell)
    words = {True: "on", False: "off"}
    rows = [
        [words[trajectory], words[calibration], mean((c["metrics"]["psnr"] for c in cells), 2), str(len(cells))]
        for (trajectory, calibration), cells in sorted(groups.items())
    ]
    return markdown(["trajectory", "calibration", "PSNR dB", "clients"], rows)


def ceiling_table() -> str:
    """SME from noise and from the private images, by client and in the mean of a data set."""
    noise = {
        f"{cell['dataset']} {cell['client'].get('writer') or cell['client']['seed']}": cell["metrics"]
        for cell in read("others")["cells"]
        if cell["attack"] == "sme"
    }
    pairs = {client: (noise[client], private) for client, private in read("ceiling")["clients"].items()}
    rows = []
    for data in ("femnist", "cifar100"):
        runs = {client: pair for client, pair in pairs.items() if client.startswith(data)}
        rows += [[client, *_noise_and_private([pair])] for client, pair in runs.items()]
        rows.append([f"{NAMES[data]}, mean", *_noise_and_private(list(runs.values()))])
    return markdown(["client", "from noise dB", "L_sim", "from the private images dB", "L_sim"], rows)


def _noise_and_private(pairs: list[tuple[Row, Row]]) -> list[str]:
    columns = [(way, *column) for way in (0, 1) for column in (("psnr", 2), ("l_sim", 3))]
    return [mean((pair[way][key] for pair in pairs), digits) for way, key, digits in columns]


def defenses_table() -> str:
    """nl-sme against each defense, next to the same clients without one."""
    plain = {cell["client"]["seed"]: cell for cell in read("main")["cells"] if cell["attack"] == "nl-sme"}
    rows = []
    for (defense, asked), cells in group(map(with_matching, read("defenses")["cells"]), "defense", "asked").items():
        if cells[0]["dataset"] != "femnist":
            continue
        undefended = [plain[c["client"]["seed"]] for c in cells if c["client"]["seed"] in plain]
        both = [mean((cell["metrics"]["psnr"] for cell in group), 2) for group in (undefended, cells)]
        rows.append([defense, asked, *both, mean((c["metrics"]["ssim"] for c in cells), 3), str(len(cells))])
    return markdown(["defense", "matching", "undefended dB", "defended dB", "SSIM", "clients"], rows)


def with_matching(cell: Row) -> Row:
    """`asked`: the matching that was asked for, and what `auto` chose."""
    chosen = cell["matching"]["chosen"]
    return {**cell, "asked": chosen if cell["cell"].get("matching") == chosen else f"auto: {chosen}"}


def labels_table() -> str:
    known = {cell["client"]["seed"]: cell for cell in read("main")["cells"] if cell["attack"] == "nl-sme"}
    rows = [
        [
            cell["client"].get("writer", ""),
            f"{cell['notes']['label_error']:.0%}",
            f"{known[seed]['metrics']['psnr']:.2f}" if (seed := cell["client"]["seed"]) in known else "-",
            f"{cell['metrics']['psnr']:.2f}",
        ]
        for cell in read("labels")["cells"]
    ]
    return markdown(["writer", "labels wrong", "labels known dB", "labels recovered dB"], rows)


def step_table() -> str:
    rows = []
    for model in ("cnn-cifar", "cnn-mnist"):
        step = read(f"step-{model}")
        copies = [f"{step[name]:.1f}" for name in ("extra_copies_of_nl_sme", "extra_copies_of_nl_sme_low")]
        ratios = [f"{step[name]:.2f}" for name in ("eager", "ours_eager", "ours")]
        rows.append([model, *ratios, f"{step['faster_than_eager']:.2f} x", f"{step['compile_seconds']:.0f} s", *copies])
    header = ["model", "straightforward eager", "ours, eager", "ours, compiled", "faster", "compile (cold)"]
    return markdown([*header, "model copies above SME", "with --memory low"], rows)


def eager_table() -> str:
    """nl-sme with and without its compiled step on the same clients."""
    compiled = {cell["client"]["seed"]: cell for cell in read("main")["cells"] if cell["attack"] == "nl-sme"}
    pairs = [(compiled[cell["client"]["seed"]], cell) for cell in read("eager")["cells"]]
    rows = [
        [cell["client"]["writer"], *(f"{each['metrics']['psnr']:.2f}" for each in (other, cell))]
        for other, cell in pairs
    ]
    means = [mean((pair[place]["metrics"]["psnr"] for pair in pairs), 2).partition(" ")[0] for place in (0, 1)]
    return markdown(["FEMNIST writer", "compiled dB", "eager dB"], [*rows, ["mean", *means]])


def time_table() -> str:
    rows = []
    for client, ways in read("time_to_quality").get("clients", {}).items():
        for way in ("fast", "span-sme"):
            found, paper = ways[way], ways["paper"]
            reached = found["time_to_paper"]
            share = "-" if reached is None else f"{reached:.0%}"
            psnr = [f"{paper['psnr']:.2f}", f"{found['psnr']:.2f}"]
            rows.append([client, way, *psnr, share, f"{found['seconds'] / paper['seconds']:.0%}"])
    header = ["client", "way", "paper's schedule dB", "dB", "time until the paper's dB", "whole time"]
    found = read("time_to_quality").get("summary", {})
    means = [f"{way} {share:.0%} ({data})" for way in ("fast", "span-sme") for data, share in _of_means(found, way)]
    threes = found["fast"]["threes"]["femnist"]
    return (
        markdown(header, rows) + f"\nTime until the mean over clients is the paper's: {', '.join(means)}. "
        f"Of the {threes['of']} threes of FEMNIST writers, {threes['in_time']} are there within 60% with fast.\n"
    )


def _of_means(summary: dict[str, Any], way: str) -> list[tuple[str, float]]:
    shares = summary.get(way, {}).get("time_to_paper_of_means", {})
    return [(data, share) for data, share in shares.items() if share is not None]


def memory_table() -> str:
    usual = {cell["key"]: cell for cell in read("main")["cells"]}
    same = {cell["client"]["seed"]: cell for cell in usual.values() if cell["attack"] == "nl-sme"}
    rows = []
    for cell in read("memory")["cells"]:
        before = same.get(cell["client"]["seed"]) if cell["client"]["n"] == 50 else None
        rows.append([
            f"N={cell['client']['n']}, {cell['iterations']} iterations",
            cell["cell"].get("memory", "normal"),
            "-" if before is None else f"{before['metrics']['psnr']:.2f}",
            f"{cell['metrics']['psnr']:.2f}",
            f"{cell['peak_memory_mb']:.0f} MB",
        ])  # fmt: skip
    return markdown(["FEMNIST client", "--memory", "normal dB", "dB", "peak memory"], rows)


def prior_table() -> str:
    """PSNR of denoised images that no prior was trained on."""
    found = {name: read(f"prior-{name}") for name in PRIORS}
    rows = [
        [
            PRIORS[name],
            f"{result['prior']['data']}, {result['prior']['steps']:,} steps",
            str(row["t"]),
            *(f"{row[who]:.1f}" for who in ("prior_psnr", "tv_psnr")),
        ]
        for name, result in found.items()
        for row in result.get("rows", [])
    ]
    return markdown(["images", "prior", "t", "prior dB", "total variation dB"], rows)


def dggi_table() -> str:
    """PSNR at the end of the iterations that are SME's, at the end of all, and of SME alone in as many."""
    alone = {
        cell["client"]["seed"]: cell["metrics"]["psnr"] for cell in read("others")["cells"] if cell["attack"] == "sme"
    }
    rows = []
    for cell in read("diffusion")["cells"]:
        seed = cell["client"]["seed"]
        start = cell["curve"][round(cell["parameters"]["share"] * len(cell["curve"])) - 1][1]
        psnr = [f"{start:.2f}", f"{cell['metrics']['psnr']:.2f}", f"{alone[seed]:.2f}" if seed in alone else "-"]
        rows.append([NAMES[cell["dataset"]], cell["client"].get("writer", f"seed {seed}"), *psnr])
    return markdown(["data", "client", "its start dB", "dggi dB", "sme dB"], rows)


def reproduced(name: str) -> str:
    """A table or figure of the paper as far as results/ hold it: what was measured, then what was not."""
    target = read_target(name)
    lines = known_lines(target, Known.read(ROOT / "results"))
    measured = [line for line in lines if line.measured is not None]
    absent: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        what = line.attack or line.metric
        if line.measured is None and what not in absent[line.setting]:
            absent[line.setting].append(what)
    parts = [markdown(*table(measured))] if measured else []
    parts += ["".join(f"- {said}\n" for said in verdicts(target, lines))]
    parts += ["Not run: " + "; ".join(f"{s} ({', '.join(w)})" for s, w in absent.items() if w) + ".\n"]
    return "\n" + "\n".join(part for part in parts if part and part != "Not run: .\n") + "\n"


def ladder_table() -> str:
    """The line-up, pooled over the clients of a data set."""
    rows = []
    for row in read("ladder").get("summary", []):
        shown = {name: row["prototypes"].get(name) for name in ("span", "whitened")}
        rows.append([
            {"cifar100": "CIFAR-100", "femnist": "FEMNIST writers", "pooled": "FEMNIST pooled"}[row["data"]],
            row["defense"],
            with_interval(row, "auc", 3),
            with_interval(row, "tpr1", 2),
            "-" if row["hand"] is None else with_interval(row["hand"], "auc", 2),
            *("-" if value is None else f"{value:.3f}" for value in shown.values()),
            str(row["clients"]),
        ])  # fmt: skip
    return markdown(["data", "defense", "AUC", "TPR at 1 % FPR", "hand", "span", "whitened", "clients"], rows)


def with_interval(row: Row, name: str, digits: int) -> str:
    if row[name] is None:
        return "-"
    low, high = row["intervals"][name]
    return f"{row[name]:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def coverage_table() -> str:
    """The lowest coverage over areas and numbers of others."""
    rows = [
        [members, *(f"{min(row['covered'] for row in some if row['spread'] == spread):.1%}" for spread in (1.0, 2.0))]
        for (members,), some in group(read("coverage").get("rows", []), "members").items()
    ]
    return markdown(["members", "as spread as others", "twice as spread"], rows)


def rounds_table() -> str:
    """PSNR of one round, of the other, and of both together."""
    rows = [
        [writer, *(f"{row['psnr']:.1f} dB" for row in seen)]
        for (writer,), seen in group(read("rounds").get("rows", []), "writer").items()
    ]
    return markdown(["writer", "round 1", "round 2", "both together"], rows)


def inversion_table() -> str:
    """Both attacks on each client; means over its seeds, and the worst of all images."""
    rows: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for key, row in read("inversion").get("rows", {}).items():
        client, attack, _ = key.split(" / ")
        rows[client][attack].append(row)

    def told(found: list[Row]) -> list[str]:
        if not found:
            return ["-"] * 4
        worst, share = min(row["worst"] for row in found), sum(row["identified"] for row in found)
        seconds = f"{statistics.fmean(row['seconds'] for row in found):.0f}"
        images = sum(row["n"] for row in found)
        return [
            f"{statistics.fmean(row['psnr'] for row in found):.1f}",
            f"{worst:.1f}",
            f"{share} of {images}",
            seconds,
        ]

    lines = [
        [
            client,
            f"{statistics.fmean(row['guess'] for row in attacks['invert']):.1f}",
            *told(attacks["invert"]),
            *told(attacks["span-sme"]),
        ]
        for client, attacks in rows.items()
    ]
    columns = [f"{name}{attack}" for attack in ("", ", span-sme") for name in ("dB", "worst", "identified", "seconds")]
    return markdown(["client", "guess dB", *columns], lines)


def runner_table() -> str:
    """What a second worker brings, and what the runner costs."""
    found = read("runner")
    seconds = [f"{value:.0f} s" for value in found["seconds"].values()]
    row = [*seconds, f"{found['speedup']:.2f} x", f"{found['overhead']:.1%}"]
    return markdown(["16 cells, 1 worker", "2 workers", "faster", "what the runner adds to a cell"], [row])


TABLES: dict[str, Callable[[], str]] = {
    "ladder-table": ladder_table,
    "coverage-table": coverage_table,
    "rounds-table": rounds_table,
    "main-table": main_table,
    "gain-table": gain_table,
    "settings-table": settings_table,
    "parts-table": parts_table,
    "ablation-table": ablation_table,
    "ceiling-table": ceiling_table,
    "defenses-table": defenses_table,
    "labels-table": labels_table,
    "step-table": step_table,
    "eager-table": eager_table,
    "time-table": time_table,
    "memory-table": memory_table,
    "runner-table": runner_table,
    "inversion-table": inversion_table,
    "prior-table": prior_table,
    "dggi-table": dggi_table,
    **{f"reproduce-{name}": partial(reproduced, name) for name in TARGETS if read_target(name).settings},
}


def render(text: str) -> str:
    return MARK.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for page in PAGES:
        old = page.read_text()
        new = render(old)
        if new != old:
            stale.append(page.name)
            if not check:
                page.write_text(new)
    if check and stale:
        sys.exit(f"stale tables in {', '.join(stale)}: run python benchmarks/tables.py")


if __name__ == "__main__":
    main()
