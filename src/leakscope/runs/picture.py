"""RUN/reconstructions.png: the worst cell, the most leaked images first, original above reconstruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image
from safetensors.torch import load_file

from leakscope.pictures import enlarge, strip
from leakscope.runs.atomic import writing
from leakscope.runs.store import Run

COLUMNS = 10
WIDTH = 1000


def draw_worst(run: Run, result: Mapping[str, Any]) -> None:
    """Draw the cell that `result` names as the worst one, where it has pictures."""
    key = result["summary"]["worst"]
    path = run.place(str(key)) / "images.safetensors"
    if key is None or not path.exists():
        return
    images = load_file(path)
    record = next(cell for cell in result["cells"] if cell["key"] == key)
    rows = [images[name] for name in ("originals", "reconstructions") if name in images]
    scores = record.get("per_image", {}).get("psnr")
    if scores:
        order = sorted(range(len(scores)), key=lambda place: -(scores[place] or 0))
        rows = [row[order] for row in rows]
    small = strip(rows, columns=COLUMNS)
    picture = enlarge(small, max(1, WIDTH // small.shape[1]))
    with writing(run.folder / "reconstructions.png") as aside:
        Image.fromarray(picture).save(aside, format="PNG")
