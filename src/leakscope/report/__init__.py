"""One self-contained HTML file from a run folder, and figures for papers."""

from __future__ import annotations

import os
from pathlib import Path

from leakscope.report.page import page
from leakscope.report.reading import read_run

__all__ = ["render"]


def render(run: Path, *, redact: bool = False) -> Path:
    """Write RUN/index.html from the run folder alone and return its path.

    `redact` pixelates originals and reconstructions and keeps the scores. The file is written aside and
    then renamed, so that a reader never meets half a report.
    """
    text = page(read_run(run), redact=redact)
    target = run / "index.html"
    aside = run / f".index.html.{os.getpid()}"
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
    return target
