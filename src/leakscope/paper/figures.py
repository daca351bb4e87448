"""The paper's figures, drawn from what was measured: the same bytes for the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from leakscope.cells.record import Record
from leakscope.metrics import METRICS
from leakscope.paper.grid import Planned
from leakscope.paper.measured import value_of
from leakscope.paper.targets import Target
from leakscope.report.figures import COLOURS, COLUMN, DASHES, MARKERS, as_math, panels_of, save, show
from leakscope.report.reading import Images, read_pictures

SHOWN = 8
"""Images in a row of a gallery."""
LINEAR_ERROR = r"$E_{lin}(T)$"
AXES = {"figure4": "local images N", "figure5": "local epochs E", "figure6": "local steps T"}
Records = Mapping[str, Record]


def draw_target(
    target: Target, planned: Sequence[Planned], records: Records, folder: Path, *, quick: bool = False
) -> list[Path]:
    """RUN/figures/NAME.svg and .png; nothing for tables, and for figures of which nothing was measured yet."""
    make = KINDS.get(target.kind)
    drawn = None if make is None else make(target, planned, records, folder)
    if drawn is None:
        return []
    (folder / "figures").mkdir(parents=True, exist_ok=True)

    def marked() -> Figure:
        figure = drawn()
        if quick:
            figure.suptitle("quick: scaled down, says nothing about the attacks", fontsize=7, color="#b00020")
        return figure

    return [save(marked, folder / "figures" / f"{target.name}.{suffix}") for suffix in ("svg", "png")]


Make = Callable[[Target, Sequence[Planned], Records, Path], Callable[[], Figure] | None]


def lines(target: Target, planned: Sequence[Planned], records: Records, folder: Path) -> Callable[[], Figure] | None:
    """The mean over clients at every x, with the range between clients shaded; a line per attack or series."""
    del folder
    (metric,) = target.metrics
    curves: dict[str, dict[float, list[float]]] = {}
    for one in planned:
        values = [value for record in finished(one, records) if (value := value_of(record, metric)) is not None]
        if values and one.entry.setting.x is not None:
            curves.setdefault(one.entry.setting.series or str(one.entry.attack), {})[one.entry.setting.x] = values
    if not curves:
        return None
    label = as_math(METRICS[metric].title) if metric in METRICS else LINEAR_ERROR
    return lambda: _curves(curves, xlabel=AXES[target.name], ylabel=label, markers=True)


def convergence(
    target: Target, planned: Sequence[Planned], records: Records, folder: Path
) -> Callable[[], Figure] | None:
    """PSNR over the iterations of each attack."""
    del target, folder
    curves: dict[str, dict[float, list[float]]] = {}
    for one in planned:
        for record in finished(one, records):
            for iteration, psnr in record.curve("psnr"):
                curves.setdefault(str(one.entry.attack), {}).setdefault(iteration, []).append(psnr)
    if not curves:
        return None
    return lambda: _curves(curves, xlabel="iteration", ylabel=METRICS["psnr"].title, markers=False)


def gallery(target: Target, planned: Sequence[Planned], records: Records, folder: Path) -> Callable[[], Figure] | None:
    """The first images of each setting's first client: originals above what each attack made of them."""
    del target
    strips: list[tuple[str, list[tuple[str, Images]]]] = []
    for name in dict.fromkeys(one.entry.setting.name for one in planned):
        rows: list[tuple[str, Images]] = []
        for one in (one for one in planned if one.entry.setting.name == name):
            for cell in one.cells[:1]:
                images = read_pictures(folder / "cells" / cell.key / "images.safetensors")
                if cell.key in records and images.originals is not None and images.reconstructions is not None:
                    rows = rows or [("original", images.originals[:SHOWN])]
                    rows.append((str(one.entry.attack), images.reconstructions[:SHOWN]))
        strips += [(name, rows)] if rows else []
    return (lambda: _strips(strips)) if strips else None


def diagram(target: Target, planned: Sequence[Planned], records: Records, folder: Path) -> Callable[[], Figure]:
    """Boxes in two lanes: what the client does above, what the curious server does below."""
    del planned, records, folder
    return lambda: _lanes(target.boxes)


KINDS: dict[str, Make] = {"lines": lines, "convergence": convergence, "gallery": gallery, "diagram": diagram}


def finished(planned: Planned, records: Records) -> list[Record]:
    """The records of an entry's clients that ended well."""
    return [records[key] for key in planned.keys if key in records and records[key].done]


def _curves(
    curves: Mapping[str, Mapping[float, Sequence[float]]], *, xlabel: str, ylabel: str, markers: bool
) -> Figure:
    figure = Figure(figsize=(COLUMN, 2.5), layout="constrained")
    panel = figure.subplots()
    for place, (name, curve) in enumerate(curves.items()):
        x = sorted(curve)
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        marker = MARKERS[place % len(MARKERS)] if markers else ""
        panel.plot(x, [fmean(curve[k]) for k in x], color=colour, ls=dash, marker=marker, ms=3, label=name)
        low, high = [min(curve[k]) for k in x], [max(curve[k]) for k in x]
        panel.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    panel.set(xlabel=xlabel, ylabel=ylabel)
    panel.grid(lw=0.3, alpha=0.5)
    figure.legend(loc="outside lower center", ncols=3, fontsize=7)
    return figure


def _strips(strips: Sequence[tuple[str, Sequence[tuple[str, Images]]]]) -> Figure:
    rows = [(name, label, images) for name, group in strips for label, images in group]
    figure, panels = panels_of(len(rows), max(len(images) for _, _, images in rows), width=2 * COLUMN)
    for row, (name, label, images) in enumerate(rows):
        for panel, image in zip(panels[row], images, strict=False):
            show(panel, image)
        for panel in panels[row][len(images) :]:
            panel.set_axis_off()
        title = f"{name}\n{label}" if label == "original" else label
        panels[row, 0].set_ylabel(title, rotation=0, ha="right", va="center")
    return figure


def _lanes(boxes: Mapping[str, Sequence[str]]) -> Figure:
    figure = Figure(figsize=(2 * COLUMN, 2.2), layout="constrained")
    panel = figure.subplots()
    widest = max(len(stations) for stations in boxes.values())
    for row, (lane, stations) in enumerate(boxes.items()):
        y = -1.3 * row
        panel.text(-0.75, y, lane, ha="right", va="center", weight="bold", color=COLOURS[row])
        for place, text in enumerate(stations):
            _box(panel, place, y, text, COLOURS[row])
            if place:
                _arrow(panel, (place - 1 + 0.42, y), (place - 0.42, y))
    above, below = boxes.values()
    _arrow(panel, (len(above) - 1, -0.35), (len(below) - 2, -1.3 + 0.35))
    _arrow(panel, (len(below) - 2, -1.65), (0, -1.65), bend=-0.12)
    panel.set(xlim=(-1.3, widest - 0.5), ylim=(-2.2, 0.5))
    panel.set_axis_off()
    return figure


def _box(panel: Axes, x: float, y: float, text: str, colour: str) -> None:
    shape = FancyBboxPatch((x - 0.4, y - 0.33), 0.8, 0.66, boxstyle="round,pad=0.02", fc="white", ec=colour, lw=0.9)
    panel.add_patch(shape)
    panel.text(x, y, text, ha="center", va="center", fontsize=6.5)


def _arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float], *, bend: float = 0.0) -> None:
    path = f"arc3,rad={bend}"
    panel.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=8, lw=0.8, color="black", connectionstyle=path)
    )
