"""Asks models and judges, or reads what they said before: the functions that a run samples."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimist.evaluating.files import FilePrompt
from optimist.evaluating.ledger import Ledger, UnansweredPrompt
from optimist.evaluating.scorers import AnswerScore, TextScorer, comparing, judged, rubric_of
from optimist.evaluating.spec import Budget, EvaluationPlan
from optimist_client.chat import Call, Chat, Endpoint, FailedCall, Judge, LateCall, Pace, RefusedCall, Reply
from optimist_client.chat.calls import Answerer, ChatPrompt
from optimist_client.errors import StopError

JUDGE = "the judge"
"""Who is asked for scores, in the ledger: no name of a model, as these stand in quotes or in tables."""


class BudgetSpent(StopError):
    """The budget is spent."""


class UnknownAnswer(FailedCall):
    """This was not asked before."""


def amounts(dollars: float, all: float) -> str:
    """Dollars of a total, both with two decimals, or as many as the total needs."""
    decimals = max(2, 1 - math.floor(math.log10(all))) if all > 0.0 else 2
    return f"${dollars:,.{decimals}f} of ${all:,.{decimals}f}"


class CachedChat:
    """Answers as a `Chat` does, what was asked before from the ledger."""

    def __init__(self, chat: Chat, who: str, ledger: Ledger, *, keeps_ended: bool) -> None:
        """chat: notes its calls by `noted`. keeps_ended: whether late and refused prompts are not asked again."""
        self._chat, self._who, self._ledger, self._keeps_ended = chat, who, ledger, keeps_ended
        self._flights: dict[str, Future[Reply]] = {}
        self._lock = threading.Lock()
        self._answered = threading.local()

    def noted(self, call: Call) -> None:
        """Write a call down; one that was answered together with its answer."""
        if call.outcome == "answered":
            self._answered.call = call
        else:
            self._ledger.note(self._who, call)

    def key(self, prompt: ChatPrompt, seed: int | None, schema: Mapping[str, Any] | None) -> str:
        """The key of this request: all that is sent, and where to."""
        endpoint = self._chat.endpoint
        text = json.dumps([endpoint.base_url, endpoint.body(prompt, seed, schema)], sort_keys=True)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    def find(self, prompt: ChatPrompt, seed: int | None, schema: Mapping[str, Any] | None) -> Reply | None:
        """The answer from the ledger. Raises `LateCall` and `RefusedCall` again."""
        kept = self._ledger.find(self.key(prompt, seed, schema))
        if not isinstance(kept, UnansweredPrompt):
            return kept
        if kept.how == "refused":
            raise RefusedCall(kept.error)
        if kept.seconds >= self._chat.timeout:  # there may be more time now
            raise LateCall(kept.error, self._chat.timeout)
        return None

    def ask(self, prompt: ChatPrompt, *, seed: int | None = None, schema: Mapping[str, Any] | None = None) -> Reply:
        """The answer to a prompt. What several threads ask for at once is asked once."""
        kept = self.find(prompt, seed, schema)
        if kept is not None:
            return kept
        key = self.key(prompt, seed, schema)
        with self._lock:
            flight = self._flights.get(key)
            mine = flight is None
            if flight is None:
                flight = self._flights[key] = Future[Reply]()
        if not mine:
            return flight.result()
        try:
            # Another thread may have ended its flight in between.
            reply = self.find(prompt, seed, schema) or self._paid(key, prompt, seed, schema)
        except BaseException as error:
            flight.set_exception(error)
            raise
        else:
            flight.set_result(reply)
            return reply
        finally:
            with self._lock:
                del self._flights[key]

    def _paid(self, key: str, prompt: ChatPrompt, seed: int | None, schema: Mapping[str, Any] | None) -> Reply:
        try:
            reply = self._chat.ask(prompt, seed=seed, schema=schema)
        except (LateCall, RefusedCall) as error:
            if self._keeps_ended:
                late = isinstance(error, LateCall)
                self._ledger.keep(
                    key, self._who, UnansweredPrompt("late" if late else "refused", self._chat.timeout, f"{error}")
                )
            raise
        self._ledger.keep(key, self._who, reply, self._answered.call)
        return reply


class LedgerChat:
    """Answers only what was asked before; raises `UnknownAnswer` for all else."""

    def __init__(self, cached: CachedChat) -> None:
        self._cached = cached

    def ask(self, prompt: ChatPrompt, *, seed: int | None = None, schema: Mapping[str, Any] | None = None) -> Reply:
        """The answer from the ledger, also of a request without the schema, where the endpoint took none."""
        for sent_schema in dict.fromkeys([json.dumps(schema), "null"]):
            if (reply := self._cached.find(prompt, seed, json.loads(sent_schema))) is not None:
                return reply
        raise UnknownAnswer("not asked before")


class BudgetGuard:
    """The dollars that may still be spent."""

    def __init__(self, budget: Budget, ledger: Ledger) -> None:
        self._budget, self._ledger = budget, ledger
        self._lock = threading.Lock()
        self._sums: dict[str, tuple[int, float]] = {}
        self._open: Counter[str] = Counter()

    @contextmanager
    def taken(self, model: str) -> Generator[None]:
        """A context in which a model answers, and is judged. Raises Spent where that may cost more than there is."""
        with self._lock:
            calls, dollars = self._ledger.spent
            ahead = sum(count * self._mean(name) for name, count in self._open.items()) + self._mean(model)
            limit = self._budget.dollars
            if limit is not None and (dollars + ahead > limit or dollars >= limit):
                raise BudgetSpent(f"the budget is spent: {amounts(dollars, limit)}")
            if self._budget.calls is not None and calls + self._open.total() >= self._budget.calls:
                raise BudgetSpent(f"the budget is spent: {calls:,} of {self._budget.calls:,} calls")
            self._open[model] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[model] -= 1

    def add(self, model: str, dollars: float) -> None:
        """Note what an answer of a model cost."""
        with self._lock:
            count, total = self._sums.get(model, (0, 0.0))
            self._sums[model] = count + 1, total + dollars

    def _mean(self, model: str) -> float:
        count, total = self._sums.get(model, (0, 0.0))
        return total / count if count else 0.0


@dataclass(frozen=True)
class AnswerRow:
    """An answer of a model to a prompt: what is told of it, and what is shown."""

    value: float
    seconds: float
    dollars: float
    tokens: tuple[int, int] = (0, 0)
    """Of the prompt, and of the answer."""
    answer: str = ""
    reasons: tuple[str, ...] = ()
    refusals: int = 0
    error: str = ""


@dataclass
class PlanModels:
    """The models of a plan, and its judge. It is a context, which closes their connections."""

    plan: EvaluationPlan
    home: Path
    questions: Mapping[str, FilePrompt]
    ledger: Ledger
    rows: dict[tuple[str, str], AnswerRow] = field(default_factory=dict[tuple[str, str], AnswerRow])
    """By model and prompt, what was told."""

    def __post_init__(self) -> None:
        plan, self._closing = self.plan, ExitStack()
        paces: dict[str, Pace] = {}
        of_url: defaultdict[str, list[Endpoint]] = defaultdict(list)
        for endpoint in (*plan.models.values(), *([plan.score.judge] if plan.score.judge else [])):
            of_url[endpoint.base_url].append(endpoint)
        for url, endpoints in of_url.items():
            per_minute = [each.per_minute for each in endpoints if each.per_minute is not None]
            paces[url] = Pace(min(each.at_once for each in endpoints), min(per_minute, default=None))

        def cached(endpoint: Endpoint, who: str, keeps_ended: bool) -> CachedChat:
            how: dict[str, Any] = {"timeout": plan.timeout, "patience": plan.patience, "tries": plan.tries}
            chat = Chat(endpoint, **how, pace=paces[endpoint.base_url], note=lambda call: asking.noted(call))
            self._closing.callback(chat.close)
            asking = CachedChat(chat, who, self.ledger, keeps_ended=keeps_ended)
            return asking

        try:
            self._models = {name: cached(endpoint, name, True) for name, endpoint in plan.models.items()}
            given = plan.score.judge
            self._compared: TextScorer | None = None if given else comparing(plan.score, self.home)
            self._judges: tuple[Judge, Judge] | None = None
            if given is not None:
                asking = cached(given, JUDGE, False)
                self._judges = self._judge(asking), self._judge(LedgerChat(asking))
        except BaseException:
            self._closing.close()
            raise
        self._allowance = BudgetGuard(plan.budget, self.ledger)

    def _judge(self, asking: Answerer) -> Judge:
        given = self.plan.score.judge
        assert given is not None
        rubric = rubric_of(self.plan.score, self.home)
        return Judge(asking, rubric, scale=given.scale, times=given.times, schema=given.json_schema)

    @property
    def judgements(self) -> int:
        """Requests to a judge for an answer."""
        given = self.plan.score.judge
        return 0 if given is None else given.times * (1 if self.plan.score.pairwise is None else 2)

    @property
    def worst(self) -> float:
        """The score of no answer: the lower end of the scale, else 0."""
        low = self.plan.score.limits[0]
        return low if low > -float("inf") else 0.0

    def remembered(self, model: str, id: str) -> AnswerRow | None:
        """The row as answered and judged before; None where a part of it was not."""
        try:
            return self._noted(model, id, remembered=True)
        except FailedCall:
            return None

    def functions(self, with_records: bool) -> dict[str, Callable[..., dict[str, Any]]]:
        """For each model, the function that a run samples. with_records: whether answers are told beside the scores."""

        def function(model: str) -> Callable[..., dict[str, Any]]:
            def sample(size: int, seed: int, prompts: Sequence[str]) -> dict[str, Any]:
                del size, seed
                rows = [self._row(model, id) for id in prompts]
                records = {"records": [*map(_record, prompts, rows)]} if with_records else {}
                return self.batch(rows) | records

            return sample

        return {name: function(name) for name in self.plan.models}

    def batch(self, rows: Sequence[AnswerRow]) -> dict[str, Any]:
        """Rows as they are told."""
        return {
            "values": [[row.value] for row in rows],
            "seconds": [[row.seconds] for row in rows],
            "dollars": [[row.dollars] for row in rows],
        }

    def _row(self, model: str, id: str) -> AnswerRow:
        row = self.remembered(model, id)
        if row is None:
            with self._allowance.taken(model):
                row = self._noted(model, id, remembered=False)
        return row

    def _noted(self, model: str, id: str, *, remembered: bool) -> AnswerRow:
        row = self.rows[model, id] = self._answered(model, self.questions[id], remembered)
        self._allowance.add(model, row.dollars)
        return row

    def _answered(self, model: str, question: FilePrompt, remembered: bool) -> AnswerRow:
        seed = question.seed(self.plan.seed)
        try:
            reply = self._reply(model, question, remembered)
        except LateCall as late:
            return AnswerRow(self.worst, late.seconds, 0.0, error=f"{late}")
        except RefusedCall as refused:
            return AnswerRow(self.worst, 0.0, 0.0, error=f"{refused}")
        scored = self._scored(model, question, reply.text, remembered, seed)
        tokens = reply.input_tokens, reply.output_tokens
        seconds = min(reply.seconds, self.plan.timeout * 0.999999)  # from the time-out on it would count as cut off
        return AnswerRow(scored.value, seconds, reply.cost, tokens, reply.text, scored.reasons, scored.refusals)

    def _reply(self, model: str, question: FilePrompt, remembered: bool) -> Reply:
        asking = LedgerChat(self._models[model]) if remembered else self._models[model]
        return asking.ask(question.prompt, seed=question.seed(self.plan.seed))

    def _scored(self, model: str, question: FilePrompt, answer: str, remembered: bool, seed: int) -> AnswerScore:
        if self._compared is not None:
            return AnswerScore(self._compared(question, answer))
        assert self._judges is not None
        pairwise, baseline = self.plan.score.pairwise, None
        if pairwise is not None:
            if model == pairwise.baseline:
                return AnswerScore(0.5)
            try:
                baseline = self._reply(pairwise.baseline, question, remembered).text
            except (LateCall, RefusedCall):
                return AnswerScore(1.0, ("the baseline gave no answer",))
        return judged(self._judges[remembered], question, answer, baseline, self.worst, seed)

    def __enter__(self) -> PlanModels:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()


def _record(id: str, row: AnswerRow, longest: int = 2000) -> dict[str, Any]:
    """The record that a service is told, with the first characters of each text."""
    told: dict[str, Any] = {"prompt": id, "answer": row.answer[:longest]}
    told |= {"seconds": row.seconds, "dollars": row.dollars}
    if row.reasons:
        told["reason"] = row.reasons[-1][:longest]
    if row.error:
        told["error"] = row.error[:longest]
    return told
