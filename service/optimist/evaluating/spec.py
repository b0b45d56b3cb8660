"""The fields of a file of `optimist evaluate`: models, prompts, the score, and when to stop."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from optimist_client.chat import Endpoint
from optimist_client.errors import FixError
from optimist_client.limits import LimitField
from optimist_client.tolerance import Tolerance
from optimist_client.validation import is_mapping
from optimist_client.wire import GeneratorName, Identifier, Wire

FiniteNumber = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]


class JudgeModel(Endpoint):
    """The model that judges, with its rubric."""

    rubric: Text | None = None
    """The criteria of a good answer: a file of text, or the text itself."""
    scale: tuple[FiniteNumber, FiniteNumber] = (1.0, 5.0)
    """The worst and the best score."""
    times: Annotated[int, Field(ge=1, le=100)] = 1
    """The number of judgements of each answer, with other seeds; the mean counts."""
    json_schema: bool = True
    """True: the endpoint is asked to keep a JSON schema. One that refuses it is asked without."""


class Pairwise(Wire):
    """The win rate of a model's answers against the baseline's, over all prompts; ties count half."""

    baseline: GeneratorName
    """The model that all others are compared with."""


_KINDS = ("exact", "contains", "regex", "json", "python", "judge")


class ScoreSpec(Wire):
    """The score of an answer, by one of: exact, contains, regex, json, python, judge."""

    model_config = ConfigDict(populate_by_name=False)

    exact: bool = False
    """1 where the answer is the prompt's `answer`, but for spaces around it."""
    contains: bool = False
    """1 where the prompt's `answer` stands in it."""
    regex: Text | None = None
    """1 where this regular expression matches in it; with an `answer`, where the first group, or the match, is that."""
    field: Text | None = Field(default=None, alias="json")
    """1 where it is a JSON object whose field of this name is the prompt's `answer`."""
    python: Annotated[str, StringConstraints(pattern=r"^[\w.]+:\w+$")] | None = None
    """`module:function`, your own code beside this file: it is called with (answer, prompt), the text and a mapping of
    the prompt's fields, and returns a number."""
    judge: JudgeModel | None = None
    """A model that judges."""
    pairwise: Pairwise | None = None
    """With a judge: answers are compared with a baseline's, both ways round."""
    ignore_case: bool = False
    """True: capital and small letters are the same."""
    scale: tuple[FiniteNumber, FiniteNumber] | None = None
    """With `python`: the worst and the best number that it returns."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, data: Any) -> Any:
        return {data: True} if data in ("exact", "contains") else data

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, "field" if kind == "json" else kind)]
        if len(given) != 1:
            raise FixError(f"expected one of {', '.join(_KINDS)}; got {' and '.join(given) or 'none'}")
        if self.pairwise is not None and self.judge is None:
            raise FixError("pairwise: expected a judge, too")
        if self.scale is not None and self.python is None:
            raise FixError("scale: only with python; the scale of a judge stands there")
        if not self.limits[0] < self.limits[1]:
            raise FixError("scale: expected a number and a larger one")
        return self

    @property
    def limits(self) -> tuple[float, float]:
        """The worst and the best score; infinite where they are not known."""
        if self.pairwise is None and self.judge is not None:
            return self.judge.scale
        if self.python is not None:
            return self.scale or (-float("inf"), float("inf"))
        return 0.0, 1.0


class Budget(Wire):
    """When to stop at the latest, all runs of the file together."""

    dollars: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    """The limits of spending. Requests that are on their way then are waited for, and judged."""
    calls: Annotated[int, Field(ge=1)] | None = None
    """Requests to models and judges."""
    minutes: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """Of one run of the command."""


class EvaluationPlan(Wire):
    """A file of `optimist evaluate`: which of these models is best for these prompts?"""

    models: Annotated[dict[GeneratorName, Endpoint], Field(min_length=2, max_length=100)]
    """The models to compare, by any names."""
    prompts: Text
    """A file of JSON lines, each with `prompt` (a text) or `messages`, and perhaps `answer` and `id`."""
    score: ScoreSpec
    """The score of an answer."""
    good_enough: Tolerance | None = None
    """Asks for the cheapest model that is at most so much worse than the best one: a difference, or a share as "2%"."""
    limits: dict[Identifier, LimitField] = Field(default_factory=dict[str, Any])
    """Asks for the cheapest model that keeps limits on `score`, `seconds` or `dollars`, as {seconds: "< 2"}."""
    stop: bool = True
    """True: it stops as soon as the answer is sure. Else it asks every model every prompt, within the budget."""
    budget: Budget = Field(default_factory=Budget)
    """When to stop at the latest."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """Seconds that a request may take. An answer that has not come then has the worst score."""
    patience: Annotated[float, Field(gt=0, le=86_400)] = 120.0
    """Seconds in all that are waited for an endpoint that asks for pauses, for one answer."""
    tries: Annotated[int, Field(ge=1, le=100)] = 5
    """Requests that may fail for one answer."""
    at_once: Annotated[int, Field(ge=1, le=1000)] = 16
    """Prompts that are answered at once."""
    delta: Annotated[float, Field(ge=1e-12, lt=1)] = 0.05
    """The accepted probability of naming a wrong model."""
    tolerance: Tolerance = 0.0
    """A difference in score that does not matter, or a share of the best score as "1%"."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Of the order of the prompts, and of the models' own randomness."""

    @model_validator(mode="before")
    @classmethod
    def _has_models(cls, data: Any) -> Any:
        if is_mapping(data) and "models" not in data:
            raise FixError("models: expected two or more by name, got none")
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        pairwise = self.score.pairwise
        if pairwise is not None and pairwise.baseline not in self.models:
            raise FixError(
                f"score.pairwise.baseline: expected one of {', '.join(self.models)}; got {pairwise.baseline}"
            )
        if self.wants_cheapest and not any(model.price.of(1, 1) for model in self.models.values()):
            raise FixError("good_enough, limits: the cheapest one is named by price: expected the price of a model")
        return self

    @property
    def wants_cheapest(self) -> bool:
        """True where the cheapest model that is good enough is asked for."""
        return self.good_enough is not None or bool(self.limits)
