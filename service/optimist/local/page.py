"""The page of a comparison: its answer, and the best, worst and typical samples of each generator."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from optimist.datasets.samples import SampleSource
from optimist.local.embedding import CachedEmbedder
from optimist.local.evaluation import Evaluation
from optimist_client.display import as_html, as_notes, as_page
from optimist_client.models import Report, Standing
from optimist_client.previews import encoded, image_kind

if TYPE_CHECKING:
    from optimist.local.answer import CompareResult

ExampleKind = Literal["best", "typical", "worst"]
_MEANS = {
    "best": "Without them its score would be worse.",
    "typical": "As many of its samples make the score better than these do as make it worse.",
    "worst": "Without them its score would be better.",
}


@dataclass(frozen=True)
class Example:
    """A sample of a generator, as it is shown."""

    name: str
    prompt: str
    shown: bytes | str
    """A small image, or the text."""
    influence: float
    """By how much it makes the score better than a typical sample does, on the scale on which scores are compared."""


def examples_of(
    evaluation: Evaluation,
    embedding: CachedEmbedder,
    source: SampleSource,
    names: Sequence[str],
    count: int,
    first: int = 512,
) -> dict[ExampleKind, list[Example]]:
    """The samples that make a generator's score best and worst, and those in the middle, `count` of each.

    names: of its samples that were used, of which the `first` are looked at. Empty where the metric does not say what
    single samples do.
    """
    looked_at = list(names[:first])
    if not looked_at:
        return {}
    arrays = embedding.arrays(source, looked_at)
    influence = evaluation.influence(source.name, {array: arrays[array] for array in evaluation.arrays})
    if influence is None:
        return {}
    influence = influence - np.median(influence)
    order, middle = np.argsort(-influence), np.argsort(np.abs(influence))
    return {
        kind: [_example(source, looked_at[row], float(influence[row])) for row in rows[:count]]
        for kind, rows in zip(get_args(ExampleKind), (order, middle, order[::-1]), strict=True)
    }


def _example(source: SampleSource, name: str, influence: float) -> Example:
    return Example(name, source.prompts.get(name, ""), encoded(source.sample(name, source.raw(name))), influence)


def page_of(compared: CompareResult) -> str:
    """The page, which needs no other file."""
    report = compared.report
    parts = [
        f'<section><h2>{escape(row.generator)}</h2><p class="note">{escape(_scored(report, row))}</p>'
        f"{_groups(compared.examples.get(row.generator, {}))}</section>"
        for row in report.in_order
    ]
    answer = as_html(report).replace(as_notes([report.answer]), "") + as_notes([compared.effort])  # which is the title
    return as_page(report.answer, f"{answer}{''.join(parts)}")


def _scored(report: Report, row: Standing) -> str:
    interval = "" if row.interval_text == "…" else f" ({row.interval_text})"
    return f"{report.title} {row.score_text}{interval}, {row.samples:,} samples used"


def _groups(groups: Mapping[ExampleKind, Sequence[Example]]) -> str:
    if not groups:
        return '<p class="note">The metric does not say what single samples do to the score.</p>'
    return "".join(
        f'<h3>{kind.capitalize()}</h3><p class="note">{_MEANS[kind]}</p>'
        f'<div class="shown">{"".join(map(_figure, examples))}</div>'
        for kind, examples in groups.items()
    )


def _figure(example: Example) -> str:
    caption = escape(": ".join(filter(None, (example.name, example.prompt))))
    if isinstance(example.shown, str):
        shown = f"<pre>{escape(example.shown)}</pre>"
    else:
        source = f"data:{image_kind(example.shown)};base64,{base64.b64encode(example.shown).decode()}"
        shown = f'<img src="{source}" alt="{caption}">'
    return f"<figure>{shown}<figcaption>{caption}</figcaption></figure>"
