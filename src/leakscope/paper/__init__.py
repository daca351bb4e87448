"""The paper's tables and figures as data, and their reproduction."""

from __future__ import annotations

from leakscope.paper.targets import NAMES, Setting, Target, choose, read_target

__all__ = ["NAMES", "Setting", "Target", "choose", "read_target"]
