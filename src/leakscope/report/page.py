"""From a run to the one file that leaves the machine: everything inlined, nothing fetched, no code but our
own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from importlib import resources
from operator import attrgetter
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from leakscope.cells.identity import Identity, titles
from leakscope.cells.record import Record
from leakscope.metrics import METRICS, Metric
from leakscope.report import wording
from leakscope.report.advice import advise
from leakscope.report.charts import CURVES, Chart, Series, clean, title_and_scale
from leakscope.report.gallery import script_blocks, strips
from leakscope.report.matrix import matrices
from leakscope.report.reading import Reading, by_severity
from leakscope.report.redaction import HIDDEN, without_names
from leakscope.report.remarks import doubts, worst_round
from leakscope.verdict.levels import LEVELS, find, is_scored, number, severity

TOLD = ("defense", "preflight")
"""Notes that have a place of their own."""
DASH = "–"
LINES = 6
"""As many as can be told apart."""


def page(run: Reading, *, redact: bool = False) -> str:
    """The report as one HTML document."""
    script, style = asset("report.js"), asset("theme.css") + asset("report.css")
    context = {
        **build(run, redact=redact),
        "script": Markup(script),
        "style": Markup(style),
        "policy": policy(script, style),
    }
    return environment().get_template("report.html.j2").render(context)


def build(run: Reading, *, redact: bool) -> dict[str, Any]:
    """What the template shows."""
    run = without_names(run) if redact else run
    cells, verdict = run.cells, run.verdict
    found = strips(run, redact=redact)
    return {
        "run": run,
        "name": HIDDEN if redact else run.path.resolve().name,
        "redact": redact,
        "command": run.command,
        "verdict": verdict,
        "severity": severity(verdict.level),
        "levels": LEVELS,
        "headline": wording.HEADLINES[verdict.level],
        "subject": subject(cells),
        "created": readable_time(run.created),
        "assumed": wording.short_assumptions(cells) if cells else (),
        "assumptions": wording.assumptions(cells) if cells else (),
        "advice": advise(cells),
        "metrics": shown_metrics(),
        "caveats": wording.CAVEATS,
        "matrices": matrices(cells),
        "strips": found,
        "data": script_blocks(found),
        "charts": curves(run),
        "rounds": over_rounds(cells),
        "worst_round": worst_round(cells),
        "doubts": doubts(cells),
        "table": [row(cell, run.titles[cell.key]) for cell in by_severity(cells)],
        "missing_metrics": missing_metrics(cells),
    }


def subject(cells: Sequence[Record]) -> str:
    """`photos · cnn-cifar · 3 attacks · 2 defenses · 2 clients`."""
    counted = (
        ({cell.attack for cell in cells}, "attack"),
        ({cell.defense for cell in cells} - {"none"}, "defense"),
        ({cell.identity.holder for cell in cells}, "client"),
        ({cell.round for cell in cells} - {None}, "round"),
    )
    names = [
        wording.spread(cell.dataset for cell in cells),
        wording.spread(cell.model for cell in cells),
    ]
    names += [f"{len(values)} {what}{'s' if len(values) > 1 else ''}" for values, what in counted if values]
    return " · ".join(names) if cells else "no cell has ended yet"


def curves(run: Reading) -> tuple[Chart, ...]:
    """PSNR, L_sim and objective over the iterations, for the worst client of each attack and defense."""
    chosen: dict[tuple[str, str], Record] = {}
    for cell in by_severity(run.cells):
        if cell.history:
            chosen.setdefault((cell.attack, cell.defense), cell)
    cells = list(chosen.values())[:LINES]
    charts = (_over_iterations(cells, run.titles, name) for name in CURVES)
    return tuple(chart for chart in charts if chart is not None)


def _over_iterations(cells: Sequence[Record], names: Mapping[str, str], metric: str) -> Chart | None:
    """The lines of one number, with what the guess scores where that is known."""
    title, log = title_and_scale(metric)
    guess = next((cell.baseline.get(metric) for cell in cells), None)
    series = []
    for place, cell in enumerate(cells):
        if drawable := clean(cell.curve(metric), log=log):
            series.append(Series(names[cell.key], drawable, place))
    if not series:
        return None
    ends = "; ".join(f"{line.name} ends at {line.points[-1][1]:.3g}" for line in series)
    return Chart(title, "iteration", tuple(series), log=log, reference=guess, summary=ends)


def over_rounds(cells: Sequence[Record]) -> Chart | None:
    """Share of identified images (PSNR where that is not measured) by round, where there are two rounds or more."""
    rounds = [cell for cell in cells if cell.round is not None]
    if len({cell.round for cell in rounds}) < 2:
        return None
    name = "identified" if any(cell.metrics.get("identified") is not None for cell in rounds) else "psnr"
    groups: dict[Identity, list[Record]] = {}
    for cell in rounds:
        groups.setdefault(replace(cell.identity, key="", round=None, iterations=None), []).append(cell)
    turn = attrgetter("round")
    lines = titles([replace(line, key=str(place)) for place, line in enumerate(groups)])
    points = {
        place: clean([(cell.round, cell.metrics.get(name)) for cell in sorted(group, key=turn)], log=False)
        for place, group in enumerate(groups.values())
    }
    series = tuple(Series(lines[str(place)], line, place) for place, line in points.items() if line)[:LINES]
    if not series:
        return None
    title = "Share of images identified" if name == "identified" else METRICS[name].title
    ends = "; ".join(f"{line.name} from {line.points[0][1]:.3g} to {line.points[-1][1]:.3g}" for line in series)
    return Chart(title, "round", series, summary=ends)


def row(cell: Record, title: str) -> dict[str, Any]:
    """One line of the table of all cells."""
    finding = find(cell) if is_scored(cell) else None
    return {
        "key": cell.key,
        "title": title,
        "level": finding.level if finding else "unknown",
        "scores": list(scores(cell, finding.n if finding else 0)),
        "status": cell.status,
        "error": cell.error,
        "seconds": cell.seconds,
        "memory": cell.peak_memory_mb,
        "matching": cell.matching,
        "attack_repr": cell.attack_repr,
        "client": cell.client.model_dump(exclude_none=True),
        "notes": [f"{name}: {_in_words(note)}" for name, note in cell.notes.items() if name not in TOLD],
        "iterations": cell.iterations,
        "w0": cell.w0,
    }


def shown_metrics() -> list[Metric]:
    """What the table of all cells shows and the report explains; shares of images, which settle the level, first."""
    return sorted((metric for metric in METRICS.values() if "report" in metric.tables), key=lambda m: not m.share)


def scores(cell: Record, n: int) -> Iterator[str]:
    """The scores of a cell of n images as the table shows them, column by column."""
    for metric in shown_metrics():
        value, guess = cell.metrics.get(metric.name), cell.baseline.get(metric.name)
        yield f"{value * n:.0f} of {n}" if metric.share and n and value is not None else short(value, metric.digits)
        if metric.beside_guess:
            yield DASH if value is None or guess is None else signed(value - guess, metric.digits)


def _in_words(note: object) -> str:
    """A note as text; the parts of a nested one behind each other."""
    if isinstance(note, dict):
        return ", ".join(f"{key} {_in_words(value)}" for key, value in note.items())
    return f"{note:.4g}" if isinstance(note, float) else str(note)


def missing_metrics(cells: Sequence[Record]) -> dict[str, str]:
    """Metrics that some cell lacks, by the reason given: `lpips, lpips_alex` -> why."""
    reasons: dict[str, str] = {}
    for cell in cells:
        reasons.update(cell.missing)
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    return {", ".join(names): reason for reason, names in grouped.items()}


def policy(script: str, style: str) -> str:
    """Nothing is fetched, and only the script and the style written here run."""
    return (
        f"default-src 'none'; img-src data:; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@lru_cache(maxsize=1)
def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("leakscope.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["short"] = short
    env.filters["signed"] = signed
    env.filters["percent"] = lambda value, digits=0: "–" if value is None else f"{100 * value:.{digits}f} %"
    return env


def short(value: object, digits: int = 2) -> str:
    """A number for a table, a dash where there is none."""
    known = number(value)
    return DASH if known is None else f"{known:.{digits}f}"


def signed(value: float, digits: int = 1) -> str:
    """With its sign, and a minus that is one.

    >>> signed(-2.5), signed(3.14159, 2)
    ('−2.5', '+3.14')
    """
    return f"{value:+.{digits}f}".replace("-", "−")


def asset(name: str) -> str:
    """A style sheet or script that ships with the report."""
    return resources.files("leakscope.report").joinpath("templates", name).read_text(encoding="utf-8")


def readable_time(created: str) -> str:
    """`2 June 2025, 09:30 UTC`; the text itself where it is no time."""
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        return created
    zone = when.strftime("%Z") if when.tzinfo else ""
    return f"{when.day} {when:%B %Y, %H:%M} {zone}".strip()
