"""Tables of reported | measured | difference, and one HTML page of them for a run folder."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from leakscope.metrics import METRICS
from leakscope.paper.grid import QUICK
from leakscope.paper.measured import Line, best
from leakscope.paper.targets import Target

Shown = tuple[Target, Sequence[Line], Sequence[Path]]
HEADER = ("setting", "attack", "metric", "reported", "measured", "difference", "clients", "note")
DASH = "–"


def rows_of(lines: Iterable[Line]) -> list[tuple[str, ...]]:
    """The cells of a table as text, in the order of `HEADER`."""
    return [
        (
            line.setting,
            line.attack or DASH,
            METRICS[line.metric].label if line.metric in METRICS else line.metric.replace("_", " "),
            _pair(line.reported, line.reported_deviation, line.metric),
            _pair(line.measured, line.deviation, line.metric),
            DASH if line.difference is None else f"{line.difference:+.{_digits(line.metric)}f}",
            str(line.clients),
            "; ".join((*line.notes, *([line.reason] if line.reason else []))),
        )
        for line in lines
    ]


def table(lines: Iterable[Line]) -> tuple[list[str], list[list[str]]]:
    """Header and rows; columns that say nothing in any row are left out."""
    rows = rows_of(lines)
    kept = [place for place in range(len(HEADER)) if any(row[place] not in ("", DASH) for row in rows)]
    return [HEADER[place] for place in kept], [[row[place] for place in kept] for row in rows]


def verdicts(target: Target, lines: Sequence[Line]) -> list[str]:
    """Which attack comes out best in each setting, here and in the paper."""
    if "psnr" not in target.metrics or len(target.attacks) < 2:
        return []
    return [
        f"{setting}: best PSNR by {ours}" + (f"; in the paper {theirs}" if theirs else "")
        for setting, (ours, theirs) in best(lines, "psnr").items()
        if ours
    ]


def page(shown: Sequence[Shown], *, quick: bool, command: str) -> str:
    """One self-contained page with every table and figure."""
    loader = PackageLoader("leakscope.paper")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(table=table, verdicts=verdicts, inline=_inline)
    template = environment.get_template("reproduce.html.j2")
    return template.render(shown=shown, quick=QUICK if quick else "", command=command)


def _pair(mean: float | None, deviation: float | None, metric: str) -> str:
    if mean is None:
        return DASH
    digits = _digits(metric)
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def _digits(metric: str) -> int:
    """The paper's four, of which a number with a unit keeps those that mean something."""
    return METRICS[metric].digits if metric in METRICS and METRICS[metric].unit else 4


def _inline(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
