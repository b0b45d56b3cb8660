"""Reports of routing: the table of an experiment that routes prompts, and the answer for a file of scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.arrays import Floats
from optimist.datasets.prompts import Embed, arrays_of_rows
from optimist.records import codec
from optimist.routing.answers.features import ContextSettings
from optimist.routing.answers.policy import RoutePolicy, calls_of
from optimist.routing.answers.rows import RoutedRows
from optimist.routing.gain.gain import PromptType, RouteGain, as_rows, route_gain, types_of
from optimist.routing.gain.outcomes import MIN_PROMPTS, ScoredPrompts, arrays_in, prompts_of
from optimist_client.errors import FixError
from optimist_client.layout import Table
from optimist_client.metrics import Scale
from optimist_client.models.routes import Routes, RouteSavings, RouteScore, RouteShare, RouteType, gain_sentence
from optimist_client.rows import NO_FIELDS, SUFFIXES, Fields

EXAMPLES = 3
FEWEST_PICKS = 2
"""Picks that a generator must have had: what is said of one prompt is learned from others."""


@dataclass(frozen=True)
class RoutingSettings:
    """Among whom prompts are routed, and by what."""

    names: Sequence[str]
    """Names of the generators (G,)."""
    lower_is_better: bool = False
    policy: str = "optimistic"
    price: float = 0.0
    costs: Sequence[float] | None = None
    """Cost of a sample of each generator (G,)."""
    retired: Collection[str] = ()
    """Names of generators of which there are no rows any more."""
    tries: int = 1
    contexts: ContextSettings | None = None
    """The settings of the columns of contexts; by default fixed by the contexts of the rows."""
    seed: int = 0
    title: str = "Score"
    scale: Scale = "linear"
    delta: float = 0.05
    """Intervals hold with the confidence 1 − δ."""
    types: int = 8

    @property
    def sign(self) -> float:
        """1 where higher scores are better, else −1."""
        return -1.0 if self.lower_is_better else 1.0

    @property
    def paid(self) -> Floats | None:
        """The costs as an array (G,)."""
        return None if self.costs is None else np.asarray(self.costs, dtype=np.float64)

    @property
    def has_chances(self) -> bool:
        """True if the policy gives prompts to generators by chance."""
        return RoutePolicy(self.policy).has_chances


@dataclass(frozen=True)
class _Problem:
    """The rows as prompts: one for each pick."""

    prompts: ScoredPrompts
    able: list[int]
    """Ordinals in the experiment of the generators in `prompts`."""
    texts: list[str]
    sign: float


def route_table(rows: RoutedRows, routing: RoutingSettings) -> Routes:
    """The table of routing from recorded rows; `positions` are left to the caller.

    A pick of several rows counts by its first one: the others are there only if the first ones failed, so that from
    them is learned, but no gain is judged by them. Raises FixError without rows, and unless there is a name, and a
    cost, for each generator.
    """
    count, names = len(rows.samples), routing.names
    if len(names) != count or (routing.costs is not None and len(routing.costs) != count):
        raise FixError(f"expected {count} names, and as many costs if any, got {len(names)} names")
    if not len(rows.score):
        raise FixError("a table needs at least one sample of a generator")
    contexts = routing.contexts
    if contexts is None:
        contexts = ContextSettings(rows.contexts.shape[1], 256).fitted([rows.contexts.astype(np.float64)])
    problem, prompts = _problem(rows, routing), len(np.unique(rows.pick))
    warnings = _missing(rows, names, routing.retired)
    if problem is None:
        few = f"{prompts} prompts are too few: {MIN_PROMPTS}, and two generators with {FEWEST_PICKS} each, are needed"
        facts = _of_few(rows, routing)
        warnings.append(few)
    else:
        facts = _of_many(rows, routing, problem, contexts)
        if facts["standard_error"] is None and routing.has_chances:
            warnings.append(
                "too few prompts were given by chance to the generators that are compared, so that the gain is by the "
                "model"
            )
    return Routes(
        title=routing.title,
        lower_is_better=routing.lower_is_better,
        scale=routing.scale,
        delta=routing.delta,
        price=routing.price,
        costs=None if routing.paid is None else routing.paid.tolist(),
        prompts=prompts,
        positions=[],
        samples=int(rows.samples.sum()),
        warnings=tuple(warnings),
        **facts,
    )


def _of_many(
    rows: RoutedRows, routing: RoutingSettings, problem: _Problem, contexts: ContextSettings
) -> dict[str, Any]:
    """The fields of the table for generators that can be compared."""
    seed, names, count = routing.seed, routing.names, len(routing.names)
    overall = route_gain(problem.prompts, price=routing.price, contexts=contexts, seed=seed, delta=routing.delta)
    sigma = float(contexts.bandwidth)
    kinds = types_of(problem.prompts, overall, count=routing.types, examples=4 * EXAMPLES, bandwidth=sigma, seed=seed)
    routed = np.zeros(count)
    routed[problem.able] = list(overall.shares.values())
    success = np.full((len(overall.predicted), count), np.nan)  # NaN for generators that cannot be compared
    success[:, problem.able] = problem.sign * overall.predicted
    return {
        "best": overall.best,
        "best_score": problem.sign * overall.single_value,
        "score": problem.sign * overall.value,
        "gain": overall.gain,
        "standard_error": overall.error,
        "lower": overall.lower,
        "upper": overall.upper,
        "basis": "model" if overall.error is None else "doubly robust",
        "types": [_type(kind, problem, names) for kind in kinds],
        "shares": _shares(rows, names, routed),
        "savings": _savings(rows, routing, list(names).index(overall.best), success),
    }


def _of_few(rows: RoutedRows, routing: RoutingSettings) -> dict[str, Any]:
    """The fields of the table for too few prompts: means of all samples."""
    told, paid = rows.samples > 0, routing.paid
    means = np.where(told, rows.sums / np.maximum(rows.samples, 1), np.nan)
    worth = np.where(told, routing.sign * means - (0.0 if paid is None else routing.price * paid), -np.inf)
    single = int(np.argmax(worth))
    return {
        "best": routing.names[single],
        "best_score": float(means[single]),
        "score": float(rows.sums.sum() / rows.samples.sum()),
        "gain": None,
        "standard_error": None,
        "basis": "model",
        "types": [],
        "shares": _shares(rows, routing.names, np.eye(len(routing.names))[single]),
        "savings": _savings(rows, routing, single, None),
    }


def _problem(rows: RoutedRows, routing: RoutingSettings) -> _Problem | None:
    """The prompts of generators that can be compared; None where there are too few."""
    names, paid = routing.names, routing.paid
    _, first, prompt = np.unique(rows.pick, return_index=True, return_inverse=True)
    picks = np.bincount(rows.generator[first], minlength=len(names))
    able = np.flatnonzero(picks >= FEWEST_PICKS)
    kept = np.isin(rows.generator[first], able)
    if len(able) < 2 or int(kept.sum()) < MIN_PROMPTS:
        return None
    indices = np.cumsum(kept) - 1
    is_in = kept[prompt]
    is_first = np.zeros(len(rows.score), dtype=np.bool_)
    # Policies without chance draw by chance only until the first model: those few prompts would judge the gain of all.
    is_first[first] = routing.has_chances
    prompts = ScoredPrompts(
        names=tuple(names[index] for index in able.tolist()),
        contexts=rows.contexts[first[kept]].astype(np.float64),
        prompt=indices[prompt[is_in]],
        generator=np.searchsorted(able, rows.generator[is_in]),
        scores=routing.sign * rows.score[is_in],
        probability=np.where(is_first, rows.probability, np.nan)[is_in],
        costs=None if paid is None else paid[able],
    )
    return _Problem(prompts, able.tolist(), [rows.prompts[index] for index in first[kept]], routing.sign)


def _type(kind: PromptType, problem: _Problem, names: Sequence[str]) -> RouteType:
    had = sum(score.samples for score in kind.scores.values())
    scores: list[RouteScore] = []
    for name in names:
        score = kind.scores.get(name)
        scores.append(
            RouteScore(
                generator=name,
                score=None if score is None or score.score is None else problem.sign * score.score,
                standard_error=None if score is None else score.error,
                traffic=0.0 if score is None else score.samples / max(had, 1),
            )
        )
    # Every generator of a log has a predicted score, so that there is a winner.
    winner = kind.winner or problem.prompts.names[0]
    shown = dict.fromkeys(text for index in kind.examples if (text := problem.texts[index]))
    return RouteType(
        share=kind.share,
        examples=list(shown)[:EXAMPLES],
        winner=winner,
        lead=kind.lead,
        lead_standard_error=kind.lead_error,
        gain=kind.gain,
        gain_standard_error=kind.gain_error,
        scores=scores,
    )


def _shares(rows: RoutedRows, names: Sequence[str], routed: Floats) -> list[RouteShare]:
    told = max(int(rows.samples.sum()), 1)
    return [
        RouteShare(generator=name, samples=int(samples), traffic=int(samples) / told, routed=float(share))
        for name, samples, share in zip(names, rows.samples, routed, strict=True)
    ]


def _savings(rows: RoutedRows, routing: RoutingSettings, single: int, success: Floats | None) -> RouteSavings | None:
    """The costs of prompts, each called until success, beside the costs of single generators; None without costs.

    success: expected score (m, G) on each prompt; NaN for generators that cannot be compared.
    """
    paid, tries = routing.paid, routing.tries
    if paid is None:
        return None
    calls = len(rows.score) / len(np.unique(rows.pick))
    prompts = float(rows.samples.sum()) / calls
    cost = float(rows.samples @ paid) / prompts
    # Of those that prompts can be given to: neither retired nor without samples.
    dearest = int(np.argmax(np.where(rows.samples > 0, paid, -np.inf)))
    alone, dearest_cost = (float(paid[index]) * _calls(success, index, tries, calls) for index in (single, dearest))
    return RouteSavings(
        cost=cost,
        single_cost=alone,
        dearest_cost=dearest_cost,
        saved=(alone - cost) * prompts,
        saved_dearest=(dearest_cost - cost) * prompts,
    )


def _calls(success: Floats | None, index: int, tries: int, usual: float) -> float:
    """Expected calls (1 − (1 − q)^τ)/q of a generator for one prompt; those that prompts had where q is not known."""
    if tries == 1:
        return 1.0
    if success is None or np.isnan(success[0, index]):
        return usual
    # Below a success of 1 % no further calls are counted on.
    return float(calls_of(np.maximum(success[:, index], 0.01), tries).mean())


def _missing(rows: RoutedRows, names: Sequence[str], retired: Collection[str]) -> list[str]:
    """Warnings about generators of which too little is known."""
    _, first = np.unique(rows.pick, return_index=True)
    picks = np.bincount(rows.generator[first], minlength=len(names))
    generators = [*zip(names, rows.samples, picks, strict=True)]
    untold = [name for name, samples, _ in generators if not samples and name not in retired]
    rare = [name for name, samples, had in generators if samples and had < FEWEST_PICKS]
    said = [f"nothing is known of {', '.join(untold)}: no samples"] if untold else []
    return said + ([f"{', '.join(rare)} had too few of these prompts to be compared"] if rare else [])


@dataclass(frozen=True, eq=False)
class RouteReport:
    """The gain of routing the prompts of a file, and their types."""

    names: tuple[str, ...]
    gain: RouteGain
    types: list[PromptType]
    texts: tuple[str, ...] | None
    """The prompts' texts."""
    is_logged: bool
    """True if each prompt was given to one generator, with a known probability."""
    at_least: float | None = None
    """The part of the best single generator's score that was to be kept."""

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        gain = self.gain
        if self.at_least is not None and gain.shares[gain.best] == 1.0:
            return f"{gain.best} alone keeps {self.at_least:.0%} of the best single score: there is nothing to route."
        said = gain_sentence(gain.best, gain.gain, gain.error, gain.lower, gain.upper)
        return f"{said} Gains are of the score less the price of its cost." if gain.price else said

    @property
    def tables(self) -> tuple[Table, ...]:
        """Two tables of a row for each type of prompt: its winner and the gain of routing; each generator's score."""
        types, scores = as_rows(self.types, self.texts, self.names)
        return tuple(
            Table(head, rows, left=left, sentences=head[0])
            for (head, *rows), left in ((types, ("winner",)), (scores, ()))
        )

    @property
    def notes(self) -> list[str]:
        """Sentences on the numbers of the tables, and on the part of the prompts that each generator would get."""
        shares = ", ".join(f"{share:.0%} {name}" for name, share in self.gain.shares.items())
        return ["± is half of an interval of 95%.", f"Prompts would go to: {shares}."]

    def to_dict(self) -> dict[str, Any]:
        numbers = "price", "best", "gain", "basis", "error", "lower", "upper", "value", "single_value"
        numbers += "cost", "single_cost", "shares"
        gain = self.gain
        return {
            "generators": list(self.names),
            "prompts": gain.prompts,
            **{name: getattr(gain, name) for name in numbers},
            "types": [codec.plain(kind) for kind in self.types],
        }


def _no_embedder(prompts: list[str]) -> NDArray[Any]:
    raise FixError(f"{len(prompts):,} prompts have no context, and there is no function that embeds them")


def route_file(
    file: Path, *others: Path, fields: Fields = NO_FIELDS, embed: Embed | None = None, **how: Any
) -> RouteReport:
    """The report on a file of prompts, routed at a price of cost or within a budget.

    Rows of `.jsonl` and `.csv` files are read as `arrays_of_rows` says, by `fields`, with prompts embedded by `embed`.
    There may be a file for each generator. Others are `.npz` files.

    It has `contexts` (m, d), the embeddings of m prompts, and one of two sets of arrays. `scores` (m, G): what each of
    G generators scored on each prompt, NaN where it got none. Or, of a log in which every prompt was given to one
    generator: `generator` (m,), its index or its name, `score` (m,), and `probability` (m,), with which it was chosen.
    Optional are `names` (G,), `costs` (G,) of a sample, and `prompts` (m,), the texts. Raises FixError if the file
    cannot be read, lacks an array, or if the numbers do not fit.
    """
    if file.suffix in SUFFIXES:
        arrays = arrays_of_rows([file, *others], fields, embed or _no_embedder)
    elif others:
        raise FixError(f"{others[0]}: expected one file, or several ending in {', '.join(SUFFIXES)}")
    else:
        fields.check_unused(file)
        arrays = arrays_in(file)
    return route_arrays(arrays, file, **how)


def route_arrays(
    arrays: Mapping[str, NDArray[Any]],
    file: Path,
    *,
    price: float = 0.0,
    ceiling: float | None = None,
    at_least: float | None = None,
    features: int = 256,
    types: int = 6,
    seed: int = 0,
) -> RouteReport:
    """The report on the arrays of a file, as `route_file` describes them. Raises FixError as it does."""
    prompts = prompts_of(arrays, file)
    texts = None if "prompts" not in arrays else tuple(map(str, arrays["prompts"]))
    if texts is not None and len(texts) != len(prompts.contexts):
        raise FixError(f"prompts: expected {len(prompts.contexts)} texts, as many as contexts; got {len(texts)}")
    if not 0.0 <= price < np.inf:
        raise FixError(f"price: expected a number of at least 0, got {price}")
    if price and prompts.costs is None:
        raise FixError(f"price: it is multiplied by costs, and {file} has no array `costs`")
    gain = route_gain(prompts, price=price, ceiling=ceiling, at_least=at_least, features=features, seed=seed)
    if gain.error is None:
        raise FixError(f"what routing gains is not known: {_why_unknown(prompts, gain)}")
    kinds = types_of(prompts, gain, count=types, seed=seed)
    return RouteReport(prompts.names, gain, kinds, texts, prompts.is_logged, at_least)


def _why_unknown(prompts: ScoredPrompts, gain: RouteGain) -> str:
    """The reason why a gain has no error."""
    moved, every = int((gain.routed != gain.single).sum()), f"{gain.prompts:,} prompts"
    if prompts.is_logged:
        return (
            f"{moved:,} of {every} would go to another generator than {gain.best}, and too few of them were given by "
            "chance to either: a log needs probabilities below 1"
        )
    if moved == 1:
        return f"only 1 of {every} would go to another generator than {gain.best}: there is next to nothing to route"
    return f"too few of the {moved:,} prompts that would go to another generator than {gain.best} have scores of both"
