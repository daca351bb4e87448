"""Search a recipe's parameters on some clients and report on others, with Optuna (extra `tune`).

RUN/study.db keeps the trials, RUN/cells every cell: killed at any moment, the same command goes on. A trial draws
from a sampler seeded by its number, so that an interrupted study proposes what an undisturbed one would have.
"""

from __future__ import annotations

import inspect
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakscope.attacks import ATTACKS, read_settings
from leakscope.cells.request import Request
from leakscope.cells.spec import Cell
from leakscope.data import dataset_info
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.files import read_object, versions, write_json
from leakscope.metrics import METRICS
from leakscope.options import write
from leakscope.plugins import load_plugins
from leakscope.runs.executors import Executor
from leakscope.runs.places import Places
from leakscope.runs.store import Run
from leakscope.runs.watching import Notice

SCALES = ("", "log", "int")


@dataclass(frozen=True)
class Range:
    """`lambda_p=1e-4:1e-1:log`, `tv=0:0.02`, `width=16:64:int`, or choices: `schedule=paper|cosine`."""

    name: str
    low: float = 0.0
    high: float = 0.0
    scale: str = ""
    choices: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Range:
        name, equals, rest = text.partition("=")
        if not (name and equals and rest):
            raise InputError(Problem(f"--search {text!r} names no range", fix="--search lambda_p=1e-4:1e-1:log"))
        if "|" in rest:
            return cls(name, choices=tuple(rest.split("|")))
        low, high, *scale = rest.split(":") if rest.count(":") in (1, 2) else ("", "")
        try:
            found = cls(name, float(low), float(high), scale[0] if scale else "")
        except ValueError:
            found = cls(name)
        good = found.low < found.high and found.scale in SCALES and (found.low > 0 or found.scale != "log")
        if not (good and math.isfinite(found.low) and math.isfinite(found.high)):
            why = "LOW:HIGH with LOW < HIGH; :log needs LOW above 0"
            raise InputError(Problem(f"--search {text!r} is no range", why=why, fix="--search lambda_p=1e-4:1e-1:log"))
        return found

    def suggest(self, trial: Any) -> str:
        """The value that a trial proposes, as --set takes it."""
        if self.choices:
            return str(trial.suggest_categorical(self.name, list(self.choices)))
        if self.scale == "int":
            return str(trial.suggest_int(self.name, int(self.low), int(self.high)))
        log = self.scale == "log"
        return write(float(f"{trial.suggest_float(self.name, self.low, self.high, log=log):.3g}"))

    def covers(self, value: Any) -> bool:
        """Whether a value of the recipe lies within the search."""
        if self.choices:
            return write(value) in self.choices
        return value is not None and bool(self.low <= value <= self.high)


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is searched, on whom, and on whom it is reported."""

    attack: str
    ranges: tuple[Range, ...]
    request: Request
    tune_on: tuple[str, ...]
    """Seeds, or writers where the data set has them."""
    report_on: tuple[str, ...]
    trials: int = 20
    metric: str = "psnr"
    seed: int = 0

    def problems(self) -> Iterator[Problem]:
        load_plugins(self.request.plugins)
        if self.attack not in ATTACKS:
            yield unknown("attack", self.attack, ATTACKS)
            return
        if self.metric not in METRICS:
            yield unknown("--metric", self.metric, METRICS)
        if not self.ranges:
            yield Problem("nothing to search", fix="--search lambda_p=1e-4:1e-1:log")
        if self.trials < 1:
            yield Problem(f"--trials {self.trials} is not at least 1", fix="--trials 20")
        for one in self.ranges:
            try:
                read_settings(self.attack, {one.name: one.choices[0] if one.choices else f"{one.low:g}"})
            except InputError as error:
                yield from error.problems
        if both := sorted(set(self.tune_on) & set(self.report_on)):
            yield Problem(
                f"{', '.join(both)} would be tuned on and reported on",
                why="what was chosen on a client cannot be shown to work on that client",
                fix="give disjoint --tune-on and --report-on",
            )
        if not self.tune_on:
            yield Problem("no client to tune on", fix="--tune-on 1,2")

    def facts(self) -> dict[str, Any]:
        """What makes it this study and no other; more trials are the same study."""
        clients = {who: self.cells([who], {})[0].key for who in (*self.tune_on, *self.report_on)}
        roles = {"tuned_on": list(self.tune_on), "reported_on": list(self.report_on)}
        ranges = list(map(repr, self.ranges))
        return {"clients": clients, **roles, "ranges": ranges, "metric": self.metric, "seed": self.seed}

    def cells(self, clients: Sequence[str], settings: Mapping[str, str]) -> list[Cell]:
        """One cell for each client, with these parameters."""
        texts = tuple(f"{self.attack}.{name}={value}" for name, value in settings.items())
        base = replace(self.request, attacks=(self.attack,), settings=texts, clients=1)
        return [cell for who in clients for cell in replace(base, **client_of(base.dataset, who)).cells()]


def client_of(dataset: str, who: str) -> dict[str, Any]:
    """A client by its seed; where clients are writers by its writer, whose number is the seed as well."""
    if dataset_info(dataset).expected.by_writer:
        return {"writer": who, "seed": int(who) if who.isdigit() else 0}
    if not who.isdigit():
        raise InputError(Problem(f"{who!r} is no seed", fix="--tune-on 1,2,3"))
    return {"seed": int(who)}


def tune(
    study: Study, out: Path, *, execute: Executor, command: str = "leakscope.tune", notice: Notice = lambda _: None
) -> dict[str, Any]:
    """Search, then run defaults and best on the clients that were kept; RUN/tune.json holds the answer.

    `complete` is false where it was interrupted: the same call goes on.
    """
    refuse(study.problems())
    _require_same(study, out)
    runner = _Runner(study, out, execute, command, notice)
    found = _search(study, runner, out)
    best = found["best"]
    report = {}
    for name, settings in (("defaults", {}), ("best", best)) if study.report_on and not runner.interrupted else ():
        report[name] = runner.scores(study.report_on, settings)
    answer = {
        "command": command,
        "versions": versions(),
        "attack": study.attack,
        "metric": study.metric,
        "tuned_on": list(study.tune_on),
        "reported_on": list(study.report_on),
        "best": best,
        "trials": found["trials"],
        "report": report,
        "complete": not runner.interrupted,
    }
    write_json(out / "tune.json", answer)
    return answer


def _require_same(study: Study, out: Path) -> None:
    """A folder holds one study: trials of another one were scored on other clients, or by another metric."""
    path, facts = out / "study.json", study.facts()
    Run.open(out, Run(out).planned() or [], command="")  # refuses a folder that is not ours
    if path.exists() and read_object(path) != facts:
        raise InputError(
            Problem(
                f"{out} holds a study with other settings",
                why="its trials were scored on other clients, by another metric or over another range",
                fix="choose another --out, or delete the folder",
            )
        )
    write_json(path, facts)


class _Runner:
    """Cells of a study: each once, whatever number of trials ask for it."""

    def __init__(self, study: Study, out: Path, execute: Executor, command: str, notice: Notice) -> None:
        self.study, self.out, self.execute, self.command, self.notice = study, out, execute, command, notice
        self.interrupted = False

    def scores(self, clients: Sequence[str], settings: Mapping[str, str]) -> dict[str, float | None]:
        """client -> metric; None for a cell that failed or was not reached."""
        cells = self.study.cells(clients, settings)
        known = {cell.key: cell for cell in (*(Run(self.out).planned() or ()), *cells)}
        run = Run.open(self.out, list(known.values()), command=self.command)
        request = self.study.request
        todo = [cell for cell in cells if run.result(cell.key) is None]
        self.interrupted |= not self.execute(run, todo, Places(request.data_root, request.weights), notice=self.notice)
        records = [run.result(cell.key) for cell in cells]
        values = [None if record is None else record.metrics.get(self.study.metric) for record in records]
        return dict(zip(clients, values, strict=True))


def _search(study: Study, runner: _Runner, out: Path) -> dict[str, Any]:
    optuna = _optuna()
    direction = "maximize" if METRICS[study.metric].higher_is_better else "minimize"
    with _storage(optuna, out / "study.db") as storage:
        asked = optuna.create_study(study_name=study.attack, storage=storage, direction=direction, load_if_exists=True)
        _enqueue(optuna, asked, study)
        done = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        while not runner.interrupted and (number := len(asked.get_trials(deepcopy=False, states=done))) < study.trials:
            asked.sampler = optuna.samplers.TPESampler(seed=study.seed + number)
            _one_trial(optuna, asked, study, runner)
        trials = [
            {"number": place, "settings": trial.user_attrs["settings"], "value": trial.value}
            for place, trial in enumerate(asked.get_trials(deepcopy=False, states=done))
        ]
    scored = [trial for trial in trials if trial["value"] is not None]
    better = max if direction == "maximize" else min
    best = better(scored, key=lambda trial: trial["value"])["settings"] if scored else {}
    return {"best": best, "trials": trials}


def _enqueue(optuna: Any, asked: Any, study: Study) -> None:
    """A trial that was killed is asked again, with the same values: its finished cells are found by their keys."""
    running = asked.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
    for trial in running:
        asked.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        asked.enqueue_trial(trial.params, skip_if_exists=False)
    if not asked.get_trials(deepcopy=False):
        asked.enqueue_trial(defaults_within(study))


def defaults_within(study: Study) -> dict[str, Any]:
    """The recipe's own values where the search covers them: the first trial, which the others have to beat."""
    usual = inspect.signature(ATTACKS[study.attack].recipe).parameters
    found = {one.name: usual[one.name].default for one in study.ranges}
    return {
        one.name: write(found[one.name]) if one.choices else found[one.name]
        for one in study.ranges
        if one.covers(found[one.name])
    }


def _one_trial(optuna: Any, asked: Any, study: Study, runner: _Runner) -> None:
    trial = asked.ask()
    settings = {one.name: one.suggest(trial) for one in study.ranges}
    trial.set_user_attr("settings", settings)
    values = list(runner.scores(study.tune_on, settings).values())
    if runner.interrupted:
        return  # the trial stays open, and is asked again
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        asked.tell(trial, state=optuna.trial.TrialState.PRUNED)  # a cell failed: not a value to compare with
    else:
        asked.tell(trial, statistics.fmean(known))


@contextmanager
def _storage(optuna: Any, path: Path) -> Iterator[Any]:
    storage = optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}")
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(Problem("tune needs Optuna", fix="pip install 'leakscope[tune]'")) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
