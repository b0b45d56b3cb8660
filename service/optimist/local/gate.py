"""`optimist.gate`: is a candidate at least as good as the baseline, but for a margin? By samples that are there, or
that functions make until it is sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from optimist.datasets.sets import SampleSet, WantedArrays, generators_in, paired_by_ids, reader
from optimist.estimation.arrays import RawBatch, columns_of
from optimist.estimation.question import Question, by_label
from optimist.local.contrast import contrast_of_sets, question_on
from optimist.local.evaluation import Evaluation
from optimist.local.run import run
from optimist.policies.gates import GateSides, gate_of
from optimist_client import margins
from optimist_client.config import PromptsAre
from optimist_client.errors import FixError
from optimist_client.margins import Margin
from optimist_client.metrics import Metric
from optimist_client.models import Gate
from optimist_client.rows import Fields
from optimist_client.validation import is_mapping


def gate(
    samples: Mapping[str, RawBatch | str | Path | Callable[..., Any]],
    margin: Margin,
    metric: str | Metric = "mean",
    *,
    watch: Sequence[Metric] = (),
    embed: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None,
    max_samples: int | None = None,
    workers: int = 1,
    paired: bool | None = None,
    cluster: str | None = None,
    prompts_are: PromptsAre = "sample",
    delta: float = 0.05,
    device: str = "cpu",
    **settings: Any,
) -> Gate:
    """A gate: the first of two generators is at least as good as the second, but for a margin. `print` shows it.

    samples: two sets of samples by name, as `contrast` takes them, or two functions, as `run` takes them with `embed`.
    margin: a difference on the scale on which scores are compared, or a share of the second one's score such as "1%";
    by further metrics (`watch`) margins are given by labels, and all are to be met.

    Of sets, `paired` says that row i of both was made from the same seed or prompt, and `settings` are the
    metric's. The answer is one test of what is there: whoever asks again with more rows has to use functions, or a
    service. Functions are sampled until the answer is yes or no, at most `max_samples` of both together, which then has
    to be given; the samples of a seed are pairs unless `paired` is False, and `settings` are as in `Evaluation`.
    That answer holds at every look. Of generators that are too bad at most `delta` get a yes, of good ones at most
    `delta` a no. Raises FixError.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(0.8, 0.1, (400, 1))
    >>> found = gate({"new": rows + 0.005, "old": rows}, margin="1%", paired=True)
    >>> found.answer, found.exit_code
    ('yes', 0)
    """
    if not is_mapping(samples) or len(samples) != 2:
        raise FixError("samples: expected the candidate and the baseline by name, such as {'new': new, 'old': old}")
    are_functions = [callable(each) for each in samples.values()]
    if any(are_functions) and not all(are_functions):
        raise FixError("samples: expected two sets of samples, or two functions; got one of each")
    if all(are_functions):
        how: dict[str, Any] = {"paired": paired, "prompts_are": prompts_are, "delta": delta, **settings}
        how |= {"policy": "uniform", "stop": False, "device": device}
        evaluation = Evaluation([*samples], metric=metric, watch=watch, **how)
        return _sampled(samples, margin, evaluation, embed, max_samples, workers)
    questions = [
        question_on(metric, bool(paired), delta, device, prompts_are, **settings),
        *(question_on(further, bool(paired), delta, device, prompts_are) for further in watch),
    ]
    return gate_on_sets(
        reader(samples, columns_of(questions), bool(paired), Fields(cluster=cluster)), questions, margin
    )


def _sampled(
    functions: Mapping[str, Any],
    margin: Margin,
    evaluation: Evaluation,
    embed: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None,
    max_samples: int | None,
    workers: int,
) -> Gate:
    """The answer by samples that these functions make until it is sure."""
    candidate, baseline = functions
    steps = margins.Steps(evaluation.batch_size * workers, max_samples)
    if max_samples is None and evaluation.state.budget is None:
        raise FixError("max_samples: expected a number, as a candidate at the margin is never sure")
    answer = evaluation.gate(candidate, baseline, margin)
    while answer.answer == "open" and (step := steps.next()):
        report = run(functions, embed, max_samples=step, workers=workers, progress=False, evaluation=evaluation)
        steps.made(step, report)
        answer = evaluation.gate(candidate, baseline, margin)
    return answer


def gate_on_sets(
    sets: Callable[[], Iterator[SampleSet]],
    questions: Sequence[Question],
    margin: Margin,
    begun: Callable[[str], None] = lambda name: None,
) -> Gate:
    """The answer for two sets, the candidate's first, which are read several times. begun: as of `contrast_of_sets`."""
    labels = [*by_label([question.metric for question in questions])]
    names = [(samples.name, f"{samples.file}:{samples.name}") for samples in sets()]
    if len(names) != 2:
        raise FixError(f"expected two sets of samples, got {len(names)}")
    compared: dict[str, GateSides] = {}
    candidate, baseline = (longer if names[0][0] == names[1][0] else name for name, longer in names)
    for label, question in zip(labels, questions, strict=True):
        estimates = contrast_of_sets(partial(_own, sets, question), question, begun).estimates
        compared[label] = GateSides(question.metric, estimates[candidate], estimates[baseline])
    return gate_of(candidate, baseline, compared, margins.by_label(margin, labels), questions[0].delta, None)


def _own(sets: Callable[[], Iterator[SampleSet]], question: Question) -> Iterator[SampleSet]:
    """The sets with the arrays of one question alone."""
    for samples in sets():
        batch = samples.batch
        own = {name: batch[name] for name in question.reads.values()} if isinstance(batch, Mapping) else batch
        yield replace(samples, batch=own)


def named_sets(
    chosen: Sequence[tuple[Path, str]], wanted: WantedArrays, paired: bool
) -> Callable[[], Iterator[SampleSet]]:
    """Reads one set of each file or folder: of the generator of this name, or of the only one where it is "".

    Paired ones are in the order of their ids, where their rows have some. Raises FixError where it is not one.
    """

    def read() -> Iterator[SampleSet]:
        for file, name in chosen:
            sets = [*generators_in([file], wanted, with_ids=paired)]
            named = [samples for samples in sets if name in ("", samples.name)]
            if len(named) != 1:
                has = ", ".join(samples.name for samples in sets)
                wants = f"a generator {name}" if name else f"one generator, or {file}:{sets[0].name}"
                raise FixError(f"{file}: expected {wants}; found {has}")
            yield named[0]

    return paired_by_ids(read) if paired else read
