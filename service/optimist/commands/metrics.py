"""Metrics with their settings as texts on the command line: `kid`, `mean:reads=clipscore,higher_is_better=false`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimist_client.errors import FixError
from optimist_client.metrics import Metric, declared, find, texts

if TYPE_CHECKING:
    from optimist.numerics.real_data import RealData

FORM = "optionally with settings, as mean:reads=clipscore,higher_is_better=false or rke:kernel.sigma=10"
MetricText = Annotated[str, typer.Option(help=f"The metric: one of {', '.join(declared())}; {FORM}.")]
Watch = Annotated[
    list[str] | None,
    typer.Option(
        help="A further metric of the same samples, in the form of --metric; may be given several times. It takes "
        "--reference and the kernels' options where it has no such settings of its own. Files then hold the arrays of "
        "all metrics by name."
    ),
]


def real_data(reference: Path | None, samples: int | None) -> RealData | None:
    """What --reference and --reference-samples say. Raises FixError for a file or a number that is not valid."""
    if reference is None:
        if samples is not None:
            raise FixError("--reference-samples goes with --reference")
        return None
    from optimist.local.offline import read_reference

    return read_reference(reference, samples)


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """As `texts.parsed`. The file of a `reference` is read."""
    name, settings = texts.parsed(text)
    if isinstance(reference := settings.get("reference"), str):
        settings["reference"] = real_data(Path(reference), None)
    return name, settings


def watched(texts: Sequence[str], shared: Mapping[str, Any]) -> list[Metric]:
    """The metrics of these texts; settings among `shared` are taken where a metric has, but is not given, them."""
    from optimist.estimation.question import with_real_data

    found: list[Metric] = []
    for text in texts:
        name, settings = parsed(text)
        taken = {key: value for key, value in shared.items() if key in find(name).settings()}
        found.append(with_real_data(name, **(taken | settings)))
        if missing := sorted(
            need
            for need in find(name).needs - {"prompts", *find(name).arrays.values()}
            if found[-1].setting(need) is None
        ):
            raise FixError(f"watch: metric {name!r} needs {', '.join(missing)}")
    return found
