"""Tables of reported | measured | difference, and one HTML page of them for a run folder."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment

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
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(PAGE)
    template.globals.update(table=table, verdicts=verdicts, inline=_inline)
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


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
.wide { overflow-x: auto; }
th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid #ddd; }
td:nth-child(n+4) { white-space: nowrap; }
img { max-width: 100%; }
.quick { background: #fde7e9; border-left: 4px solid #b00020; padding: .6rem 1rem; }
code { background: #f3f3f3; padding: 0 .3rem; }
</style>
<main>
<h1>The paper, reproduced</h1>
<p>Made by <code>{{ command }}</code>. Reported: mean and deviation over the paper's five trials; measured: over
clients that no default was chosen on. A dash is a number that does not exist; the note says why.</p>
{% if quick %}<p class="quick"><strong>{{ quick }}.</strong></p>{% endif %}
{% for target, lines, figures in shown %}
{% set header, rows = table(lines) %}
<section id="{{ target.name }}">
<h2>{{ target.title }}{% if quick %} (quick){% endif %}</h2>
<p>{{ target.about }}</p>
{% for path in figures if path.suffix == ".svg" %}
<p><img src="{{ inline(path) }}" alt="{{ target.title }}"></p>
{% endfor %}
{% for verdict in verdicts(target, lines) %}<p>{{ verdict }}.</p>{% endfor %}
{% if rows %}
<div class="wide" tabindex="0" role="region" aria-label="{{ target.title }}"><table>
<thead><tr>{% for name in header %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr>{% for value in row %}<td>{{ value }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endif %}
</section>
{% endfor %}
</main>
</html>
"""
