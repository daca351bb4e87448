"""L_sim: how well the attack itself explains the update it saw."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from leakscope.metrics.metric import Column, Metric


def _number(value: float) -> Tensor:
    """A number of the whole batch, with every digit."""
    return torch.tensor(value, dtype=torch.float64)


L_SIM = Metric(
    name="l_sim",
    label="L_sim",
    description="the attack's own final 1 - cos, calibration applied, priors left out",
    meaning="How well the attack explains the update, by its own yardstick: not comparable between attacks.",
    higher_is_better=False,
    measure=lambda case: Column(_number(case.found.l_sim), _number(case.found.l_sim_best)),
    needs="the attack",
    digits=4,
    tables=("report", "results"),
)
L_SIM_RAW = replace(
    L_SIM,
    name="l_sim_raw",
    label="L_sim without calibration",
    description="the attack's own final 1 - cos without calibration and priors",
    meaning="The same before the attack weighs the layers of the update.",
    measure=lambda case: Column(_number(case.found.l_sim_raw)),
    has_best=False,
    tables=("results",),
)
