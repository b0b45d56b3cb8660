"""Feature files: scores, contrasts, mixtures, and the choice of a bandwidth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.anomalies.batches import check_batch, check_rows
from optimist.anomalies.copies import Hashes, shared_with
from optimist.datasets.sets import WantedArrays, check_matrix, generators_in, naming
from optimist.estimates.estimate import Estimate
from optimist.estimation.arrays import columns_of
from optimist.estimation.question import Question, by_label, declared_of
from optimist.estimation.streaming import first_rows
from optimist.local.basis import basis_of, hashes_in
from optimist.local.shards import files_of, score_shards
from optimist.local.single import score, scores
from optimist.metrics.devices import find_device
from optimist.metrics.vendi.influence import FULL
from optimist.records import codec
from optimist_client.config import PromptsAre, check_prompts_are
from optimist_client.errors import FixError
from optimist_client.files import read_arrays
from optimist_client.metrics import Metric
from optimist_client.metrics.kernel import MAX_FEATURES
from optimist_client.models import Basis
from optimist_client.rows import NO_FIELDS, Fields

_CLUSTER = "cluster"
"""The name of the array of clusters beside the arrays of a batch."""


@dataclass(frozen=True, slots=True)
class FileScore:
    """The estimate of one array of one file."""

    name: str
    """The array's name if the file holds several, else the file's stem; "<path>:<name>" if a name is not unique."""
    file: Path
    estimate: Estimate
    bandwidths: Mapping[str, float]
    """The σ of each kernel that has one, by its field."""
    watched: Mapping[str, Estimate] = field(default_factory=dict)
    """The estimates by the further metrics, by label."""
    basis: Basis | None = None
    """The basis of the estimate."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the estimate, on its scale, and `score` on the natural one."""
        fields = {**codec.plain(self.estimate), "bandwidths": dict(self.bandwidths)}
        watched = {label: {"score": each.score, **codec.plain(each)} for label, each in self.watched.items()}
        named = {"name": self.name, "file": str(self.file), "score": self.estimate.score, **fields}
        basis = {} if self.basis is None else {"basis": self.basis.model_dump(mode="json")}
        return named | ({"watched": watched} if watched else {}) | basis


def questions_by(
    metric: str | Metric,
    watch: Sequence[Metric] = (),
    *,
    bound: str = "influence",
    delta: float = 0.05,
    device: str = "cpu",
    prompts_are: PromptsAre = "sample",
    **settings: Any,
) -> list[Question]:
    """The question by a metric with these `settings`, as `optimist.score` takes them, and those by further ones.

    Raises FixError for settings that make no sense.
    """
    torch_device = find_device(device)
    how: dict[str, Any] = {"delta": delta, "device": torch_device, "are_list": prompts_are == "list"}
    questions = [Question(declared_of(metric, torch_device, **settings), bound, **how)]
    questions += [Question(declared_of(other, torch_device), **how) for other in watch]
    by_label([question.metric for question in questions])
    return questions


def score_files(
    files: Sequence[Path],
    questions: Sequence[Question],
    *,
    beside: Path | None = None,
    begun: Callable[[str], None] = lambda name: None,
    fields: Fields = NO_FIELDS,
) -> list[FileScore]:
    """The score of every generator in the files and folders, best first; one file is in memory at a time.

    Every array (n, d) is a generator's. Where batches have several arrays, by name, as for scores of pairs or with
    several `questions`, a file is one; so it is for a metric that `reads` an array. A folder has one file or
    subfolder per generator, as `in_folder` reads it without the file `beside`. `begun` is called with the name of each
    generator before it is scored. fields: the fields of the rows of .jsonl and .csv files.
    Open kernels are fixed once, by the first rows of all generators, as a new experiment fixes them. Raises FixError
    for a file or an array that is not as expected.
    """
    question = questions[0]
    prompts_are = "list" if question.are_list else "sample"
    wanted = wanted_by(questions, beside, fields)
    if any(each.open_kernels for each in questions):
        questions = _fitted(questions, files, wanted)
    sigmas = {field: kernel.sigma for field, kernel in questions[0].kernels.items()}
    bandwidths = {field: float(sigma) for field, sigma in sigmas.items() if sigma is not None}
    rows: list[FileScore] = []
    hashed: list[tuple[str, Hashes]] = []
    for samples in generators_in(files, wanted):
        begun(samples.name)
        cluster = None if samples.clusters is None else _CLUSTER
        read: dict[str, Any] = {array: samples.batch[array] for each in questions for array in each.reads.values()}
        with naming(samples):
            check_prompts_are(prompts_are, cluster is not None, question.bound)
            estimate, *others = scores(
                read | ({} if samples.clusters is None else {_CLUSTER: samples.clusters}), questions, cluster
            )
        watched = {each.metric.shown_label: other for each, other in zip(questions[1:], others, strict=True)}
        hashes = hashes_in(samples.batch, question)
        basis = basis_of(samples.name, samples.batch, question, hashes, samples.basis)
        if hashes is not None:
            hashed.append((samples.name, hashes))
            estimate = replace(estimate, warnings=(*estimate.warnings, *shared_with(hashed)))
        rows.append(FileScore(samples.name, samples.file, estimate, bandwidths, watched, basis))
    names = Counter(row.name for row in rows)
    distinct = [row if names[row.name] == 1 else replace(row, name=f"{row.file}:{row.name}") for row in rows]
    return sorted(distinct, key=lambda row: row.estimate.value if row.estimate.lower_is_better else -row.estimate.value)


def score_set(
    shards: Sequence[Path], questions: Sequence[Question], *, beside: Path | None = None, jobs: int = 1
) -> FileScore:
    """The score of one generator, whose samples are in all these files and folders, read by `jobs` threads.

    Arguments are as in `score_files`. Raises as `score_shards` does.
    """
    files = files_of(shards, beside)
    labels = [*by_label([question.metric for question in questions])]
    with ThreadPoolExecutor(jobs) as executor:
        estimate, *others = score_shards(files, questions, executor)
    name, folder = files[0].resolve().parent.name, files[0].parent
    basis = Basis(rows={name: estimate.samples}, notes=(f"{len(files):,} files, in which copies are not looked for",))
    return FileScore(name, folder, estimate, {}, dict(zip(labels[1:], others, strict=True)), basis)


def wanted_by(questions: Sequence[Question], beside: Path | None = None, fields: Fields = NO_FIELDS) -> WantedArrays:
    """The arrays of files and folders that these questions read."""
    columns = columns_of(questions)
    told_by = "the settings" if all(question.reference is None for question in questions) else "the reference"
    is_whole = len(columns) > 1 or len(questions) > 1 or any(each.metric.reads is not None for each in questions)
    return WantedArrays(columns, told_by, is_whole, beside, fields)


def _fitted(questions: Sequence[Question], files: Sequence[Path], wanted: WantedArrays) -> list[Question]:
    """The questions with their open kernels fixed by the same number of first rows as in an experiment."""
    max_rows = max(question.rows_to_fit(1) for question in questions)
    logs: list[dict[str, torch.Tensor]] = []
    for samples in generators_in(files, wanted):
        with naming(samples):
            check_batch(samples.batch, {array: rows.shape[1] for array, rows in samples.batch.items()})
        arrays = samples.batch.items()
        logs.append({array: torch.from_numpy(rows[:max_rows].astype(np.float64)) for array, rows in arrays})
    return [
        question.fitted(first_rows([[question.own(log)] for log in logs], question.rows_to_fit(len(logs))))
        for question in questions
    ]


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and variance, over the subsets, of the score with one σ, on the natural scale."""

    sigma: float
    mean: float
    variance: float
    features: int | None
    """r for this σ: the least power of two of which the score by the kernel itself is at most a quarter, of one subset;
    None where an experiment takes no r as large."""


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """The scores' spread for each σ, ascending, and the σ that the papers' rule chooses; None if none is stable."""

    median_distance: float
    subsets: int
    size: int
    spreads: tuple[Spread, ...]
    chosen: float | None


def choose_bandwidth(
    file: Path,
    metric: str = "vendi",
    *,
    sigmas: Sequence[float] | None = None,
    subsets: int = 10,
    size: int | None = None,
    features: int = 1000,
    seed: int = 0,
) -> Bandwidths:
    """The papers' variance rule on the one array (n, d) of a file (equations.md §4, last paragraph).

    For each σ, `subsets` disjoint random subsets of `size` rows (None: as many as there are, at most 1000) are scored
    with the same `features` random frequencies; the score is the de-biased one, on the natural scale. Chosen is the
    smallest σ from which on every one of the grid varies by less than 0.01. The papers do not say "from which on", but
    a σ so small that no two rows are similar is steady, too, at the largest score there is (real digits: variance 0 at
    1/8 of the median distance, 234 at 0.35, 0.003 at 1.4 times it). `sigmas` None is 13 of them, from 1/8 to 8 times
    the median distance of up to 1000 rows. Raises FixError for a file that is not as expected, and for options that
    make no sense.
    """
    arrays = dict(_rows_of(file))
    if len(arrays) > 1:
        raise FixError(f"{file}: expected one array, found {', '.join(arrays)}")
    rows = next(iter(arrays.values()))
    try:
        check_rows("features", rows, rows.shape[1])
    except FixError as error:
        raise FixError(f"{file}: {error}") from None
    if subsets < 2 or (size is not None and size < 2):
        raise FixError(f"expected at least 2 subsets of at least 2 rows, got {subsets} subsets of {size or 'all'}")
    size = size or min(max(len(rows) // subsets, 2), 1000)  # more rows cost seconds and hardly change σ
    if subsets * size > len(rows):
        raise FixError(f"{file}: expected rows for {subsets} disjoint subsets of {size}, found {len(rows)} rows")
    shuffled = rows[np.random.default_rng(seed).permutation(len(rows))].astype(np.float64)
    median = float(np.median(torch.pdist(torch.from_numpy(shuffled[:1000])).numpy()))
    if sigmas is None:
        if median == 0.0:
            raise FixError(f"{file}: expected rows that differ, to make a grid of σ from their median distance")
        sigmas = [median * 2.0**power for power in np.arange(-3.0, 3.5, 0.5)]
    parts = np.split(shuffled[: subsets * size], subsets)
    spreads = tuple(_spread(parts, metric, sigma, features, seed) for sigma in sorted(sigmas))
    steady: float | None = None
    for spread in reversed(spreads):
        if not spread.variance < 0.01:  # stable, as the papers say (equations.md §4, last paragraph)
            break
        steady = spread.sigma
    return Bandwidths(median, subsets, size, spreads, steady)


def _spread(parts: Sequence[NDArray[np.float64]], metric: str, sigma: float, features: int, seed: int) -> Spread:
    kernel = {"name": "gaussian", "sigma": sigma, "features": features, "seed": seed}
    scores = [score(part, metric, kernel=kernel).score for part in parts]
    own = score(parts[0][:1000], metric, kernel={**kernel, "features": "exact"}).score
    r = max(64, 2 ** math.ceil(math.log2(own / FULL)))  # fewer save nothing: a score takes milliseconds
    return Spread(sigma, float(np.mean(scores)), float(np.var(scores, ddof=1)), r if r <= MAX_FEATURES else None)


def _rows_of(file: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The matrices of a file, by displayed name."""
    arrays = read_arrays(file)
    for name, rows in arrays.items():
        shown = name if len(arrays) > 1 else file.stem
        check_matrix(file, name, rows)
        yield shown, rows
