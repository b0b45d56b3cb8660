"""`optimist contrast`: the differences of files of samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from optimist.commands.score import kernels_of, progress
from optimist.commands.shared import (
    ORDER,
    AsJson,
    Device,
    Frequencies,
    KernelName,
    MetricName,
    PromptSigma,
    ReferenceFile,
    Truncation,
    extras,
    said_plainly,
    settings_of,
)
from optimist_client.metrics import find


def contrast(
    files: Annotated[
        list[Path],
        typer.Argument(help="Samples of two or more generators, as for `optimist score`."),
    ],
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            help="Row i of every generator has the same seed or prompt; the files may differ in length.",
        ),
    ] = False,
    metric: Annotated[MetricName, typer.Option(help="The metric to compare FILES by.")] = "fid",
    reference: ReferenceFile = None,
    delta: Annotated[float, typer.Option(help="Each interval covers 1 − delta by itself.")] = 0.05,
    order: Annotated[float, typer.Option(help=ORDER)] = 1.0,
    truncation: Truncation = None,
    kernel: KernelName = None,
    sigma: Annotated[
        str | None, typer.Option(help="Bandwidth of the gaussian kernel: a number (see `bandwidth`), or median.")
    ] = None,
    prompt_sigma: PromptSigma = None,
    frequencies: Frequencies = None,
    kernel_seed: Annotated[int | None, typer.Option(min=0, help="Seed of the frequencies; 0 by default.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print all differences of more than six generators, too.")
    ] = False,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare FILES with each other: their scores, and each difference with an interval of its own.

    With --paired, what the samples have in common by their seeds or prompts does not count as chance. This needs no
    service.
    """
    settings = settings_of(device=device)
    with extras("server,scoring"):
        from optimist.evaluation.offline import contrast_files, read_reference
    with said_plainly(ValueError), progress() as begun:
        if "reference" in find(metric).needs and reference is None:
            raise ValueError(f"the metric {metric!r} needs real features to compare with: --reference FILE")
        found = contrast_files(
            files,
            metric,
            paired=paired,
            reference=None if reference is None else read_reference(reference),
            **kernels_of(metric, kernel, sigma, prompt_sigma, frequencies, kernel_seed, exact=False),
            order=order,
            truncation=truncation,
            delta=delta,
            device=settings.device,
            beside=reference,
            begun=begun,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        Console().print(Text(found.as_text(every)), soft_wrap=True)
