"""Figures for papers from a run folder: one style, colours that everybody can tell apart, the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from leakscope.cells.record import Record
from leakscope.errors import InputError, Problem, unknown
from leakscope.files import writing
from leakscope.report.charts import CURVES, title_and_scale
from leakscope.report.matrix import Matrix, Row, matrices
from leakscope.report.reading import Reading, by_severity, read_run
from leakscope.report.tiles import most_leaked_first, to_pixels

FORMATS = ("svg", "pdf", "png")
COLUMN = 3.4
"""Width of one column of a two-column paper, in inches."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which hold for every kind of colour vision."""
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vP*"
STYLE: Any = {
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "leakscope",
    "pdf.fonttype": 42,
    "figure.dpi": 150,
    "savefig.dpi": 300,
}
WITHOUT_DATE: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
SHOWN, ROWS = 8, 10

Draw = Callable[[Reading], Figure]


def draw(run: Path, kind: str, out: Path) -> Path:
    """Draw one kind of figure of a run folder into an svg, pdf or png file; it appears whole or not at all."""
    suffix = out.suffix.lstrip(".").lower()
    problems = [unknown("kind of figure", kind, KINDS)] if kind not in KINDS else []
    problems += [unknown("figure format", suffix, FORMATS)] if suffix not in FORMATS else []
    if problems:
        raise InputError(*problems)
    read = read_run(run)
    return save(lambda: KINDS[kind](read), out)


def save(make: Callable[[], Figure], out: Path) -> Path:
    """Draw a figure in our style into a file whose ending names the format; it appears whole or not at all."""
    suffix = out.suffix.lstrip(".").lower()
    with matplotlib.rc_context(STYLE):
        figure = make()
        FigureCanvasAgg(figure)
        with writing(out) as aside:
            figure.savefig(aside, format=suffix, metadata=WITHOUT_DATE[suffix])
    return out


def grid(run: Reading) -> Figure:
    """Originals above reconstructions: the most leaked images of the worst client, a row per attack and defense."""
    worst = run.worst
    if worst is None:
        raise InputError(Problem("no cell of this run was scored, there is no worst client to show"))
    cells = _of_one_client(run, worst)[:ROWS]
    originals = run.pictures(worst.key).originals
    guesses = {cell.key: run.pictures(cell.key).reconstructions for cell in cells}
    if originals is None or any(images is None or images.shape != originals.shape for images in guesses.values()):
        raise InputError(Problem("the run kept no images to show", fix="run the audit again"))
    chosen = most_leaked_first(worst, len(originals))[:SHOWN]
    figure, panels = panels_of(1 + len(cells), len(chosen), width=2 * COLUMN)
    for place, i in enumerate(chosen):
        show(panels[0, place], originals[i])
        for row, cell in enumerate(cells, start=1):
            images = guesses[cell.key]
            assert images is not None
            show(panels[row, place], images[i])
            scores = cell.each("psnr")
            if i < len(scores) and scores[i] is not None:
                panels[row, place].set_xlabel(f"{scores[i]:.1f} dB", fontsize=6, labelpad=1)
    names = _names(cells)
    for row, name in enumerate(("original", *(names[cell.key] for cell in cells))):
        panels[row, 0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def convergence(run: Reading) -> Figure:
    """PSNR, L_sim and objective over the iterations: mean over clients, with the range between them shaded."""
    groups = _with_history(run.cells)
    if not groups:
        raise InputError(Problem("no cell of this run has a history", fix="run with --history 50"))
    names = _names([cells[0] for cells in groups])
    shown = [name for name in CURVES if any(_curve(cells, name) for cells in groups)]
    figure = Figure(figsize=(2 * COLUMN, 2.1), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for panel, name in zip(panels, shown, strict=True):
        for place, cells in enumerate(groups):
            if curve := _curve(cells, name):
                colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
                x = sorted(curve)
                panel.plot(x, [np.mean(curve[k]) for k in x], color=colour, ls=dash, label=names[cells[0].key])
                low, high = [min(curve[k]) for k in x], [max(curve[k]) for k in x]
                panel.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        title, log = title_and_scale(name)
        panel.set(xlabel="iteration", ylabel=as_math(title), yscale="log" if log else "linear")
        panel.grid(lw=0.3, alpha=0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), fontsize=7)
    return figure


def as_math(title: str) -> str:
    r"""A title with its indices set as such.

    >>> as_math("L_sim^FL"), as_math("PSNR (dB)")
    ('$L_{sim}^{FL}$', 'PSNR (dB)')
    """
    marked = re.sub(r"([_^])(\w+?)(?=[_^]|$)", r"\1{\2}", title)
    return title if marked == title else f"${marked}$"


def tradeoff(run: Reading) -> Figure:
    """Leakage against test accuracy, a point per defense under its strongest attack, with the Wilson interval."""
    table = _one_table(run)
    points = [row for row in table.rows if row.accuracy is not None and _strongest(row) is not None]
    if not points:
        raise InputError(
            Problem(
                "this run has no test accuracy beside its leakage",
                why="the trade-off sets leakage against the price of a defense",
                fix="choose another --kind, or a run whose cells record `accuracy`",
            )
        )
    figure = Figure(figsize=(COLUMN, 2.6), layout="constrained")
    panel = figure.subplots()
    for place, row in enumerate(points):
        share, low, high = _strongest(row) or (0.0, 0.0, 0.0)
        colour = COLOURS[place % len(COLOURS)]
        name = "undefended" if row.defense == "none" else row.defense
        panel.errorbar(
            100 * (row.accuracy or 0.0),
            100 * share,
            yerr=[[100 * max(0.0, share - low)], [100 * max(0.0, high - share)]],
            fmt=MARKERS[place % len(MARKERS)],
            color=colour,
            label=name,
            ms=5,
            capsize=2,
            lw=0.8,
        )
    panel.set(xlabel="test accuracy (%)", ylabel="images identified (%)", ylim=(-5, 105))
    panel.grid(lw=0.3, alpha=0.5)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    return figure


def heatmap(run: Reading) -> Figure:
    """Share of images identified by each attack (columns) under each defense (rows)."""
    table = _one_table(run)
    shares = np.array(
        [[np.nan if e is None or e.share is None else 100 * e.share for e in row.entries] for row in table.rows]
    )
    if np.isnan(shares).all():
        raise InputError(Problem("identification was not measured in this run", fix="give the truth, and run again"))
    height = 0.9 + 0.32 * len(table.rows)
    figure = Figure(figsize=(max(COLUMN, 1.6 + 0.7 * len(table.attacks)), height), layout="constrained")
    panel = figure.subplots()
    picture = panel.imshow(shares, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        text = "–" if np.isnan(share) else f"{share:.0f}"
        panel.text(column, row, text, ha="center", va="center", color="black" if share > 55 else "white")
    defenses = ["undefended" if row.defense == "none" else row.defense for row in table.rows]
    panel.set_xticks(range(len(table.attacks)), table.attacks)
    panel.set_yticks(range(len(defenses)), defenses)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    figure.colorbar(picture, ax=panel, label="images identified (%)", pad=0.02)
    return figure


KINDS: Mapping[str, Draw] = {"grid": grid, "convergence": convergence, "tradeoff": tradeoff, "heatmap": heatmap}


def panels_of(
    rows: int, columns: int, *, width: float
) -> tuple[Figure, np.ndarray[tuple[int, int], np.dtype[np.object_]]]:
    side = (width - 1.3) / columns
    close = ConstrainedLayoutEngine(w_pad=0.01, h_pad=0.01, wspace=0.02, hspace=0.02)
    figure = Figure(figsize=(width, rows * (side + 0.14)), layout=close)
    return figure, figure.subplots(rows, columns, squeeze=False)


def show(panel: Axes, image: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    pixels = to_pixels(image)
    if len(pixels) == 3:
        panel.imshow(pixels.transpose(1, 2, 0), interpolation="nearest")
    else:
        panel.imshow(pixels.mean(axis=0), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def _of_one_client(run: Reading, worst: Record) -> list[Record]:
    """Every attack and defense on the client of the worst cell, worst first."""
    same = [cell for cell in run.cells if (cell.model, *cell.identity.update) == (worst.model, *worst.identity.update)]
    return [cell for cell in by_severity(same) if cell.metrics]


def _names(cells: Sequence[Record]) -> dict[str, str]:
    """What tells the cells apart: the attack, the defense, or both."""
    attacks, defenses = {cell.attack for cell in cells}, {cell.defense for cell in cells}

    def name(cell: Record) -> str:
        defense = cell.identity.protection
        if len(defenses) == 1:
            return cell.attack
        return defense if len(attacks) == 1 else f"{cell.attack}, {defense}"

    return {cell.key: name(cell) for cell in cells}


def _with_history(cells: Sequence[Record]) -> list[list[Record]]:
    """The cells of each attack and defense that have a history, worst first, as many as can be told apart."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for cell in by_severity(cells):
        if cell.history:
            groups.setdefault((cell.attack, cell.defense), []).append(cell)
    return list(groups.values())[: len(COLOURS)]


def _curve(cells: Sequence[Record], metric: str) -> dict[float, list[float]]:
    """iteration -> the values of all clients there."""
    curve: dict[float, list[float]] = {}
    for cell in cells:
        for x, y in cell.curve(metric):
            curve.setdefault(x, []).append(y)
    return curve


def _one_table(run: Reading) -> Matrix:
    tables = matrices(run.cells)
    if len(tables) != 1:
        settings = "; ".join(table.setting for table in tables) or "no cell"
        raise InputError(Problem(f"this figure shows one setting, the run has: {settings}", fix="draw them one by one"))
    return tables[0]


def _strongest(row: Row) -> tuple[float, float, float] | None:
    """(share identified, lower, upper) of the attack that identifies most under a defense."""
    known = [(entry.share, *entry.interval) for entry in row.entries if entry is not None and entry.share is not None]
    return max(known, default=None)
