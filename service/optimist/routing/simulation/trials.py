"""Plays routing policies on prompts whose scores are known for every generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from optimist.arrays import Floats, Ints
from optimist.estimates.estimate import is_due
from optimist.routing.answers.features import CONTEXTS_TO_FIT, ContextSettings, contexts_to_fit
from optimist.routing.answers.policy import SAMPLED, Frontier, RoutePolicy, calls_of
from optimist.routing.answers.ridge import FeaturePredictor, KernelRidge, PublishedRidge, Regressions, Sums
from optimist_client.errors import FixError
from optimist_client.goals import OWN_GROWTH


@dataclass(frozen=True, eq=False)
class RoutingProblem:
    """Prompts in an order of arrival, what each generator scores on them, and what it would score on average."""

    name: str
    contexts: Floats
    """(m, d)."""
    scores: Floats
    """(m, G): what a generator scores if it gets the prompt."""
    expected: Floats
    """(m, G): its expectation, by which regret is measured; the scores themselves where nothing better is known."""
    costs: Floats | None = None
    """(G,), of a call."""
    paid: Floats | None = None
    """(m, G): what the call of a generator for a prompt costs, where that differs. `costs` are then the means that a
    router begins with; it goes by the means of what it has paid."""
    tries: int = 1
    """τ: a generator is called for its prompt until it succeeds, at most so often. Above 1, `expected` is the
    probability of success of every call, and `scores` are not used."""
    joins: tuple[int, ...] = ()
    """The number of prompts before each generator joins (G,); empty: all are there from the first one."""
    changes: int = 0
    """The number of prompts before `later`; 0: they are not used."""
    later: RoutingProblem | None = None
    """The same prompts, on which generators score otherwise from then on."""

    def __post_init__(self) -> None:
        if self.tries > 1 and not ((self.expected >= 0.0) & (self.expected <= 1.0)).all():
            raise FixError("tries: calling until success needs scores from 0 to 1, which are probabilities of it")

    @property
    def calls(self) -> Floats:
        """Expected calls of each generator for each prompt (m, G): (1 − (1 − q)^τ)/q."""
        return np.ones_like(self.expected) if self.tries == 1 else calls_of(self.expected, self.tries)

    @property
    def results(self) -> Floats:
        """The expected score of each generator on each prompt after all calls (m, G)."""
        return self.expected if self.tries == 1 else 1.0 - (1.0 - self.expected) ** self.tries

    @property
    def spent(self) -> Floats:
        """The expected cost of each generator for each prompt (m, G); 0 without costs."""
        if self.costs is None:
            return np.zeros_like(self.expected)
        return self.calls * (self.costs if self.paid is None else self.paid)

    def told(self, seeds: tuple[int, int]) -> Callable[[int, int], Floats]:
        """The scores of all calls of a generator for a prompt, by their indices; the same for the same seeds."""
        if self.tries == 1:
            return lambda prompt, index: self.scores[prompt, index : index + 1]
        draws = np.random.default_rng((*seeds, 1)).random((*self.expected.shape, self.tries))
        succeeds = draws < self.expected[..., None]

        def scores(prompt: int, index: int) -> Floats:
            successes = np.flatnonzero(succeeds[prompt, index])
            return succeeds[prompt, index, : successes[0] + 1 if len(successes) else self.tries].astype(np.float64)

        return scores


@dataclass(frozen=True, eq=False)
class RoutingTrial:
    """The choices of one trial, and what they are worth."""

    chosen: Ints
    """(T,): which generator each prompt was given to."""
    probability: Floats
    """(T,): with which it was chosen; NaN where no chance was involved."""
    order: Ints
    """(T,): the prompts of the problem in the order of their arrival."""
    values: Floats
    """(T,): expected score less the price of the cost."""
    costs: Floats
    """(T,): expected cost; 0 without costs."""
    best: float
    """The mean value with the best single generator."""
    ideal: float
    """The mean value with the best generator for each prompt."""
    single_cost: float
    """The mean cost of a prompt with the best single generator."""
    dearest_cost: float
    """The mean cost of a prompt with the dearest generator."""

    @classmethod
    def from_choices(
        cls, problem: RoutingProblem, price: float, order: Ints, chosen: Ints, probability: Floats
    ) -> RoutingTrial:
        """Prompts of the problem in this order, each given to the chosen generator."""
        spent = problem.spent[order]
        values = problem.results[order] - price * spent
        rows, means = np.arange(len(order)), values.mean(0)
        dearest = 0 if problem.costs is None else int(np.argmax(problem.costs))
        return cls(
            chosen=chosen,
            probability=probability,
            order=order,
            values=values[rows, chosen],
            costs=spent[rows, chosen],
            best=float(means.max()),
            ideal=float(values.max(1).mean()),
            single_cost=float(spent[:, int(means.argmax())].mean()),
            dearest_cost=float(spent[:, dearest].mean()),
        )

    @property
    def regret(self) -> Floats:
        """Σ (best for the prompt − chosen) up to each prompt, divided by the number of prompts (T,)."""
        return self.ideal - np.cumsum(self.values) / np.arange(1, len(self.values) + 1)

    @property
    def share_of_ideal(self) -> float:
        """The gain over the best single generator as a part of the gain that is possible; 0 is as good as that one."""
        possible = self.ideal - self.best
        return math.nan if possible <= 1e-12 else (float(self.values.mean()) - self.best) / possible


def play(
    problem: RoutingProblem, policy: RoutePolicy, *, trial: int = 0, features: int = 128, seed: int = 0, warmup: int = 3
) -> RoutingTrial:
    """One trial of a policy: prompts come in a random order of (`seed`, `trial`), each is given to one generator.

    warmup: prompts that each generator gets first, in turn, under our policies, by default as in the service where the
    columns are fixed; the published ones give one.

    Bandwidth and principal components are of the first contexts, as in the service, which gives these prompts to
    the generators in turn; here the policy has them from its first prompt on.
    """
    order = np.random.default_rng((seed, trial)).permutation(len(problem.contexts))
    if policy.name == "best-single":
        single = int((problem.results - policy.price * problem.spent).mean(0).argmax())
        return RoutingTrial.from_choices(
            problem, policy.price, order, np.full(len(order), single), np.full(len(order), np.nan)
        )
    chosen, probability = _chosen(policy, problem, order, features, (seed, trial), warmup)
    return RoutingTrial.from_choices(problem, policy.price, order, chosen, probability)


def _chosen(
    policy: RoutePolicy, problem: RoutingProblem, order: Ints, features: int, seeds: tuple[int, int], warmup: int
) -> tuple[Ints, Floats]:
    contexts, count, told = problem.contexts[order], problem.expected.shape[1], problem.told(seeds)
    joins = np.array(problem.joins or [0] * count)
    later = None if problem.later is None else problem.later.told(seeds)
    probability = np.full(len(order), np.nan)
    fitted = ContextSettings(contexts.shape[1], features).fitted([contexts[:CONTEXTS_TO_FIT]])
    learner: _Learner
    if policy.name == "pak-ucb":
        learner = _Kernels(contexts, count, float(fitted.bandwidth))
    else:
        contexts_map = fitted.made()
        fit: Callable[[Sequence[Sums], int], FeaturePredictor] = (
            PublishedRidge.from_moments if policy.is_published else Regressions.from_moments
        )
        # Made again when the samples have grown by this part, or the samples of a generator by `OWN_GROWTH`.
        growth = 0.0 if policy.is_published and features <= 64 else 0.08
        learner = _Sums(contexts_map(contexts), count, partial(fit, linear=contexts_map.linear), growth)
    first = np.full(count, 1 if policy.is_published else warmup)
    if problem.joins:
        # As the service has it, whose warm-up is for generators that fix the columns.
        first = np.maximum(first, np.where(joins > 0, contexts_to_fit("median", count), 0))
    chosen = np.zeros(len(order), dtype=np.int64)
    counts = np.zeros(count, dtype=np.int64)
    purse = _Purse(problem, policy)
    for t in range(len(order)):
        able = np.flatnonzero(joins <= t)
        new = able[counts[able] < first[able]]
        # A generator that joins later gets every second prompt first, as in the service.
        if len(new) and (t % 2 or t < 2 * int(first.min()) * count):
            index = int(new[counts[new].argmin()])
        else:
            contexts_map = able[counts[able] >= first[able]]
            means, widths = learner.predict(t, contexts_map)
            paced = purse.paced(learner, t, contexts_map)
            chances = paced.chances(means, widths, None if purse.costs is None else purse.costs[contexts_map])
            chosen_of = policy.pick(chances, t)
            index = int(contexts_map[chosen_of])
            probability[t] = chances[chosen_of] if policy.has_chances else np.nan
        scores = (told if later is None or t < problem.changes else later)(int(order[t]), index)
        learner.add(t, index, scores)
        purse.pay(int(order[t]), index, len(scores))
        counts[index] += 1
        chosen[t] = index
    return chosen, probability


class _Purse:
    """The cost that a router has paid, and the price by which it keeps its budget."""

    def __init__(self, problem: RoutingProblem, policy: RoutePolicy) -> None:
        self._problem, self._policy = problem, policy
        self.costs = problem.costs
        """(G,), as the router knows them."""
        self._spent, self._calls = (np.zeros(problem.expected.shape[1]) for _ in range(2))
        self._made: tuple[int, Frontier] | None = None

    def paced(self, learner: _Learner, t: int, able: Ints) -> RoutePolicy:
        """The policy for the next prompt, after t, among these. Raises FixError without costs, and for kernels."""
        if not self._policy.keeps_budget:
            return self._policy
        if self.costs is None or isinstance(learner, _Kernels):
            raise FixError("ceiling, at_least: expected a cost of each generator, and a policy with regressions")
        if self._made is None or self._made[0] != learner.start:
            if self._problem.paid is not None:
                self.costs = np.where(self._calls > 0.0, self._spent / np.maximum(self._calls, 1.0), self.costs)
            self._made = learner.start, self._policy.frontier(*learner.sampled(SAMPLED), self.costs[able])
        return self._policy.paced(self._made[1], float(self._spent.sum()) - (self._policy.ceiling or 0.0) * t)

    def pay(self, prompt: int, index: int, calls: int) -> None:
        """Count so many calls of a generator."""
        if self.costs is not None:
            cost = self.costs[index] if self._problem.paid is None else self._problem.paid[prompt, index]
            self._calls[index] += calls
            self._spent[index] += calls * cost


class _Sums:
    """Regressions on features, made again when the samples have grown."""

    def __init__(
        self, phi: Floats, count: int, fit: Callable[[Sequence[Sums]], FeaturePredictor], growth: float
    ) -> None:
        self._phi, self._fit, self._growth = phi, fit, growth
        self._moments = [Sums.none(phi.shape[1]) for _ in range(count)]
        self._told, self._due = 0, 0
        self.start = 0
        """The first prompt that the newest regressions are for."""
        self._found: FeaturePredictor | None = None
        self._means: Floats = np.zeros((0, count))
        self._widths = self._means
        self._made_of: list[int] = []

    def predict(self, t: int, indices: Ints) -> tuple[Floats, Floats]:
        able = [self._moments[index] for index in indices.tolist()]
        samples = [each.samples for each in able]
        if self._told >= self._due or self._has_new(samples):
            self._due, self._made_of = max(self._told + 1, math.ceil((1.0 + self._growth) * self._told)), samples
            # The prompts until the next regressions at once, which is many times faster.
            block = self._phi[t : t + self._due - self._told]
            self._found = self._fit(able)
            self.start, (self._means, self._widths) = t, self._found.predict(block)
        return self._means[t - self.start], self._widths[t - self.start]

    def sampled(self, count: int) -> tuple[Floats, Floats]:
        """Means and widths (n, G) on at most so many of the prompts before these."""
        assert self._found is not None
        indices = np.unique(np.linspace(0, self.start - 1, count).astype(np.int64))
        return self._found.predict(self._phi[indices])

    def _has_new(self, samples: list[int]) -> bool:
        """True if a generator has its first samples, or has grown by `OWN_GROWTH`."""
        return len(samples) != len(self._made_of) or any(
            is_due(now, before, OWN_GROWTH) for now, before in zip(samples, self._made_of, strict=True)
        )

    def add(self, t: int, index: int, scores: Floats) -> None:
        self._moments[index] += Sums.from_rows(np.repeat(self._phi[t : t + 1], len(scores), axis=0), scores)
        self._told += 1


class _Kernels:
    """The kernel regressions of PAK-UCB."""

    def __init__(self, contexts: Floats, count: int, bandwidth: float) -> None:
        self._contexts = contexts
        self._arms = [KernelRidge(bandwidth) for _ in range(count)]

    def predict(self, t: int, indices: Ints) -> tuple[Floats, Floats]:
        predicted = np.array([self._arms[index].predict(self._contexts[t]) for index in indices.tolist()])
        return predicted[:, 0], predicted[:, 1]

    def add(self, t: int, index: int, scores: Floats) -> None:
        for score in scores.tolist():
            self._arms[index].add(self._contexts[t], score)


_Learner = _Sums | _Kernels
