"""The strips original | reconstruction | guess of every cell, most leaked image first, within a budget of
bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakscope.cells.record import Record
from leakscope.errors import InputError
from leakscope.report.reading import Pictures, Reading, by_severity
from leakscope.report.tiles import Size, encode, fingerprint, most_leaked_first, shown_per_cell, size_of
from leakscope.verdict.levels import Level, level_of, relative_scores


@dataclass(frozen=True)
class Trio:
    """One image: the private original, what the attack made of it, and its scores in words."""

    number: int
    original: str | None
    """Base64 of a PNG, None where the truth is not known."""
    reconstruction: str
    identified: bool | None
    caption: str
    brief: str


@dataclass(frozen=True)
class Strip:
    """The images of one cell."""

    key: str
    title: str
    level: Level
    client: str
    """Name of the originals, which several cells may share."""
    trios: tuple[Trio, ...]
    total: int
    guess: str | None
    size: Size
    problem: str = ""
    """Why there are no images."""


def strips(run: Reading, *, redact: bool) -> tuple[Strip, ...]:
    """A strip per cell, the worst cell first and with all its images."""
    cells = by_severity(run.cells)
    if run.worst is not None:
        cells.sort(key=lambda cell: cell.key != run.verdict.worst_key)
    sizes = [_cost(run, cell) for cell in cells]
    most = shown_per_cell([cost for cost, _ in sizes], [count for _, count in sizes])
    return tuple(strip(run, cell, redact=redact, most=None if place == 0 else most) for place, cell in enumerate(cells))


def strip(run: Reading, cell: Record, *, redact: bool, most: int | None = None) -> Strip:
    """The strip of one cell, of its `most` most leaked images."""
    try:
        pictures = run.pictures(cell.key)
    except InputError as error:
        return _empty(run, cell, str(error.problems[0].found))
    guesses = pictures.reconstructions
    if guesses is None:
        return _empty(run, cell, cell.error or "this cell kept no images")
    originals = pictures.originals
    if originals is not None and originals.shape != guesses.shape:
        originals = None
    order = most_leaked_first(cell, len(guesses))[:most]
    hits = cell.each("identified")
    trios = tuple(
        Trio(
            number=i + 1,
            original=None if originals is None else encode(originals[i], redact=redact),
            reconstruction=encode(guesses[i], redact=redact),
            identified=None if len(hits) != len(guesses) or hits[i] is None else bool(hits[i]),
            caption=", ".join(scores(cell, i)),
            brief=", ".join(scores(cell, i)[:2]),
        )
        for i in order
    )
    return Strip(
        key=cell.key,
        title=run.titles[cell.key],
        level=level_of(cell),
        client="" if originals is None else f"{fingerprint(originals)}",
        trios=trios,
        total=len(guesses),
        guess=None if pictures.baseline is None else encode(pictures.baseline),
        size=size_of(guesses),
    )


def scores(cell: Record, i: int) -> list[str]:
    """The scores of one image in words, as far as they are known."""
    guess = cell.baseline.get("psnr")
    than = "" if guess is None else f" (guess {guess:.1f})"
    written = (
        (cell.each("psnr"), "{:.1f} dB" + than),
        (cell.each("ssim"), "SSIM {:.2f}"),
        (relative_scores(cell), "relative {:.2f}"),
    )
    known = [(text, values[i]) for values, text in written if i < len(values) and values[i] is not None]
    return [text.format(value).replace("-", "−") for text, value in known]


def script_blocks(found: Sequence[Strip]) -> Markup:
    """The strips after the first as JSON blocks that the page's script reads when they are asked for.

    Originals shared by several cells are written once. They are data, not code: no policy lets them run.
    """
    originals: dict[str, dict[int, str]] = {}
    blocks = []
    for entry in found[1:]:
        shared = originals.setdefault(entry.client, {})
        shared.update({trio.number: trio.original for trio in entry.trios if trio.original is not None})
        # numbered, not named by content: a hash would let a reader of a redacted report test a guess at it
        name = str(list(originals).index(entry.client)) if entry.client else ""
        blocks.append(_block(f"cell-{entry.key}", _as_data(entry, client=name)))
    blocks += [_block(f"originals-{place}", images) for place, images in enumerate(originals.values())]
    return Markup("\n").join(blocks)


def _as_data(entry: Strip, *, client: str) -> dict[str, object]:
    return {
        "title": entry.title,
        "level": entry.level,
        "total": entry.total,
        "problem": entry.problem,
        "client": client,
        "guess": entry.guess,
        "large": entry.size.is_large,
        "width": entry.size.shown[0],
        "height": entry.size.shown[1],
        "trios": [
            {
                "number": t.number,
                "reconstruction": t.reconstruction,
                "identified": t.identified,
                "caption": t.caption,
            }
            for t in entry.trios
        ],
    }


def _block(name: str, value: Mapping[str, object] | Mapping[int, str]) -> Markup:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')


def _empty(run: Reading, cell: Record, problem: str) -> Strip:
    return Strip(cell.key, run.titles[cell.key], level_of(cell), "", (), 0, None, Size(32, 32), problem)


def _cost(run: Reading, cell: Record) -> tuple[int, int]:
    """(bytes of one image in the page, how many there are): a PNG in base64 is about as big as its pixels."""
    try:
        pictures: Pictures = run.pictures(cell.key)
    except InputError:
        return (0, 0)
    images = pictures.reconstructions
    return (0, 0) if images is None else (int(images[0].size), len(images))
