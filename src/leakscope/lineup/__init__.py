"""The line-up: which images the client trained on, told from its update alone, in seconds and without optimisation."""

from leakscope.lineup.line_up import LineUp, line_up, pooled
from leakscope.lineup.pool import Pool, Suspects, draw_pool
from leakscope.lineup.recognition import Group, Recognition, recognise

__all__ = ["Group", "LineUp", "Pool", "Recognition", "Suspects", "draw_pool", "line_up", "pooled", "recognise"]
