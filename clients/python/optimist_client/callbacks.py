"""Sends the reports of a run to where experiments are tracked: Weights & Biases, MLflow, TensorBoard, a CSV file.

A callback is any function of a report; `experiment.run(callbacks=[…])` calls it with each one that it reads.
"""

from __future__ import annotations

import csv
import math
import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist_client.errors import FixError

if TYPE_CHECKING:
    from optimist_client.models.reports import Report
    from optimist_client.models.standings import Standing

Callback = Callable[["Report"], Any]
"""A function that `run` calls with each report; its result is ignored."""
COLUMNS = (
    *("time", "samples", "state", "generator", "score", "standard_error", "lower", "upper", "generator_samples"),
    *("pick_ratio", "cost", "best", "confidence"),
)
"""The columns of `CsvCallback`. `time` is in Unix seconds, `samples` are those of all generators; the last two columns
hold the best generator so far, and the confidence that it is."""


def values(report: Report) -> dict[str, float]:
    """The numbers of a report by name, those that are known and finite.

    "samples", "cost", "confidence", and of each generator "score/<name>", "lower/<name>", "upper/<name>" and
    "pick_ratio/<name>". Scores by watched metrics are "<label>/score/<name>" and so on.
    """
    numbers: dict[str, float | None] = {
        "samples": report.samples,
        "cost": report.cost,
        "confidence": report.decision.confidence,
    }
    for row in report.standings:
        numbers |= _scores(row) | {f"pick_ratio/{row.generator}": row.pick_ratio}
    for label, watched in report.watched.items():
        for row in watched.standings:
            numbers |= {f"{label}/{name}": value for name, value in _scores(row).items()}
    return {name: float(value) for name, value in numbers.items() if value is not None and math.isfinite(value)}


def _scores(row: Standing) -> dict[str, float | None]:
    return {f"{name}/{row.generator}": getattr(row, name) for name in ("score", "lower", "upper")}


class CsvCallback:
    """Appends a line for each generator to a CSV file. Two runs may write to the same file, one after the other."""

    def __init__(self, path: str | Path) -> None:
        """Raises FixError if the file exists and has other columns."""
        self._path = Path(path)
        if self._path.exists() and self._path.stat().st_size:
            with self._path.open(newline="", encoding="utf-8") as file:
                header = next(csv.reader(file), list[str]())
            if tuple(header) != COLUMNS:
                raise FixError(f"{self._path}: expected the columns {', '.join(COLUMNS)}; found {', '.join(header)}")
        else:
            self._write([COLUMNS])

    def __call__(self, report: Report) -> None:
        """Write the standings. Numbers that are not known are left empty."""
        now, decision = time.time(), report.decision
        last = report.cost, decision.best, decision.confidence
        self._write(
            (
                *(f"{now:.3f}", report.samples, report.state, row.generator, row.score, row.standard_error, row.lower),
                *(row.upper, row.samples, row.pick_ratio, *last),
            )
            for row in report.standings
        )

    def _write(self, rows: Any) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


class TensorBoardCallback:
    """Writes scalars to a directory of TensorBoard, by the number of samples. Needs tensorboard."""

    def __init__(self, directory: str | Path) -> None:
        """Raises ModuleNotFoundError without tensorboard."""
        self._writer = _need("tensorboard.summary").Writer(str(directory))

    def __call__(self, report: Report) -> None:
        """Write the numbers of the report."""
        for name, value in values(report).items():
            self._writer.add_scalar(name, value, report.samples)
        self._writer.flush()


class MlflowCallback:
    """Logs metrics to MLflow, by the number of samples, and tags the run with the decision. Needs mlflow.

    run_id: the run to log to; None: the active one, or else a new one that MLflow starts.
    """

    def __init__(self, run_id: str | None = None) -> None:
        """Raises ModuleNotFoundError without mlflow."""
        self._mlflow = _need("mlflow")
        self._run_id = run_id

    def __call__(self, report: Report) -> None:
        """Log the numbers of the report. Characters that MLflow does not allow in names become "_"."""
        if self._run_id is None:
            active = self._mlflow.active_run() or self._mlflow.start_run(run_name=report.experiment)
            self._run_id = active.info.run_id
        client = self._mlflow.MlflowClient()
        named = {re.sub(r"[^\w\-. :/]", "_", name): value for name, value in values(report).items()}
        self._mlflow.log_metrics(named, step=report.samples, run_id=self._run_id)
        for name, text in _facts(report).items():
            client.set_tag(self._run_id, f"optimist.{name}", text)


class WandbCallback:
    """Logs to Weights & Biases: numbers by the number of samples, the decision as summary. Needs wandb.

    run: a run of `wandb.init`; None: the present one, or else a new one, for which `options` are the arguments of
    `wandb.init`. The caller finishes it, as `wandb.finish()` does.
    """

    def __init__(self, run: Any = None, **options: Any) -> None:
        """Raises ModuleNotFoundError without wandb."""
        self._wandb = _need("wandb")
        self._run = run
        self._options = options

    def __call__(self, report: Report) -> None:
        """Log the numbers of the report."""
        if self._run is None:
            self._run = self._wandb.run or self._wandb.init(**{"name": report.experiment, **self._options})
            # Not as W&B's own step, which may not fall: another experiment can share the run.
            self._run.define_metric("*", step_metric="samples")
        self._run.log(values(report))
        self._run.summary.update({f"optimist/{name}": text for name, text in _facts(report).items()})


def _facts(report: Report) -> Mapping[str, str]:
    best = report.decision.best
    return {"experiment": report.experiment, "state": report.state} | ({} if best is None else {"best": best})


def _need(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        package = {"mlflow": "mlflow-skinny"}.get(module, module.partition(".")[0])
        raise ModuleNotFoundError(f"this needs {package}: pip install {package}", name=missing.name) from missing
