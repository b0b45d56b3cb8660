"""The base class of all metrics: settings are fields, properties of the metric are class variables."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from optimist_client.errors import FixError
from optimist_client.validation import brief, in_words, is_mapping, meant
from optimist_client.wire import Identifier, Wire, optional

Scale = Literal["linear", "log"]


def _not_ids(name: str) -> str:
    """Refuse the name of the array that holds the ids of the samples."""
    if name == "ids":
        raise FixError("'ids' names the samples of a batch: expected another name for an array")
    return name


ArrayName = Annotated[Identifier, AfterValidator(_not_ids)]
"""Name of an array of a batch."""
Dimension = Annotated[int, Field(ge=1, le=16_384)]
"""Number of columns of an array of a batch."""


class Metric(Wire):
    """A declared metric with its settings. A subclass sets at least `name`, `title` and `arrays`.

    `declare` registers it.
    On the wire a metric is an object with its `name` and its settings: `{"name": "fid", "reference": "real"}`.
    """

    name: ClassVar[str]
    """The name in configs and on the wire."""
    implementation: ClassVar[str] = ""
    """Name of the module that computes it, which only scorers and runs in this process import
    (`optimist.metrics.implementations.Implementation`)."""
    title: ClassVar[str]
    """The name for display."""
    arrays: ClassVar[Mapping[str, str]]
    """The arrays of a batch, in the order of the statistic, each with the setting for its number of columns;
    "" if the reference determines it, or `widths`."""
    lower_is_better: ClassVar[bool] = False
    """True if the generator with the lowest score is best. Ask the declared object, not its class: where a setting
    decides it, this is a property. The same holds for `positive`."""
    scale: ClassVar[Scale] = "linear"
    """The scale on which it is estimated, compared and bounded."""
    floor: ClassVar[float | None] = None
    """The lowest value that is shown, since a de-biased estimate can fall below the metric's range; None: no limit."""
    positive: ClassVar[bool] = False
    """True if its scores are above 0, so that a tolerance may be a share of the best score."""
    bounds: ClassVar[Mapping[str, frozenset[str]]] = {"influence": frozenset()}
    """The bounds that can make its interval, each with its options (equations.md has their meaning and defaults)."""
    strict: ClassVar[frozenset[str]] = frozenset()
    """Bounds whose intervals hold at all sample sizes at once, so that they decide once they are apart. They
    have standard errors, too."""
    presets: ClassVar[Mapping[str, str]] = {}
    """The papers' algorithms for it by name, each with its bound."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """Requirements of an experiment: settings, and "prompts" if the samples of a batch belong to prompts."""
    simplex: ClassVar[frozenset[str]] = frozenset()
    """Its own arrays whose rows are probabilities: numbers of at least 0 that sum to 1."""
    reference_rows: ClassVar[bool] = False
    """True if it compares with the rows of its reference, not only with their mean and covariance."""
    kernels: ClassVar[Mapping[str, str]] = {}
    """The settings that are kernels, each with the array it applies to."""
    offers: ClassVar[frozenset[str]] = frozenset()
    """Displays besides the score: "modes", "prompt groups", "mixtures" (the best mixture of generators). Ask the
    declared object: settings can decide it."""
    warmup: ClassVar[int] = 2
    """Batches per generator before the policy chooses, with the bound `influence` (rules/stopping.md)."""
    decides: ClassVar[bool] = True
    """True if it can be the primary metric of an experiment, which decides; otherwise it can only be watched."""
    repeats: ClassVar[bool] = False
    """True if equal batches are expected because samples have few values; then they count as no copies."""

    label: Identifier | None = optional()
    """Name in reports; by default the metric's name, followed by the array that it `reads`. See `shown_label`."""
    reads: ArrayName | None = optional()
    """Array of a batch that it takes as its first; by default the array of the same name."""

    if not TYPE_CHECKING:  # a type checker takes the fields as the arguments

        def __init__(self, **settings: Any) -> None:
            """Raises FixError with a message in one line if the settings are not valid."""
            try:
                super().__init__(**settings)
            except ValidationError as error:
                fields = type(self).model_fields
                hint = kernel_hint(settings.keys() - fields.keys(), self.kernels)
                raise FixError(f"{in_words(error, fields=fields)}{hint}") from None

    @model_validator(mode="before")
    @classmethod
    def _without_name(cls, data: Any) -> Any:
        """Remove the name, which an object on the wire has and which is not a setting."""
        if not is_mapping(data) or "name" not in data:
            return data
        if data["name"] != cls.name:
            raise FixError(f"name: expected {cls.name!r}, got {data['name']!r}")
        return {key: value for key, value in data.items() if key != "name"}

    @model_serializer(mode="wrap")
    def _with_name(self, settings: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"name": self.name, **settings(self)}

    def on_the_wire(self) -> Any:
        """The object of JSON, in which pydantic writes infinity as a string: its Python values would have a float."""
        return json.loads(self.model_dump_json())

    @classmethod
    def settings(cls) -> frozenset[str]:
        """The names of its settings, without `label` and `reads`, which every metric has."""
        return frozenset(cls.model_fields) - {"label", "reads"}

    @property
    def shown_label(self) -> str:
        """`label`, or its default."""
        return self.label or (self.name if self.reads is None else f"{self.name}-{self.reads}"[:64])

    @property
    def shown_title(self) -> str:
        """`title`, followed by a distinction within its class: `label`, or the array that it `reads`."""
        apart = self.label or self.reads
        return self.title if apart in (None, self.name) else f"{self.title} ({apart})"

    @property
    def array_names(self) -> dict[str, str]:
        """The name that each of its `arrays` has in a batch."""
        names = {array: array for array in self.arrays}
        return names if self.reads is None else {**names, self.first_array(): self.reads}

    def setting(self, name: str) -> Any:
        """The setting of this name; None if the metric does not have it."""
        return getattr(self, name, None)

    @property
    def is_audited(self) -> bool:
        """True if people score some samples, and a judge all of them."""
        return self.setting("proxy") is not None

    @property
    def first_name(self) -> str:
        """The name that its first array has in a batch."""
        return self.reads or self.first_array()

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each array, as far as the settings determine it."""
        widths = {array: self.setting(field) for array, field in self.arrays.items() if field}
        return {array: columns for array, columns in widths.items() if columns is not None}

    @property
    def directed(self) -> frozenset[str]:
        """Its own arrays of which only the direction of a row counts, so that a row of zeros is refused."""
        kernels = {array: self.setting(field) for field, array in self.kernels.items()}
        return frozenset(array for array, kernel in kernels.items() if kernel is not None and kernel.name == "cosine")

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """The least and the largest number that each of its own arrays may hold, where there are such; both finite."""
        return {}

    @property
    def is_repeatable(self) -> bool:
        """True if a prompt's answer always has the same score."""
        return bool(self.setting("repeatable"))

    def check_repeatable(self, *, are_list: bool) -> None:
        """Raise FixError where answers are repeatable, but the score is not that on exactly these prompts."""
        if self.is_repeatable and not are_list:
            raise FixError("repeatable: expected prompts_are='list', at whose end the scores on it are exact")

    @property
    def scores_lists(self) -> bool:
        """True if, with these settings, it has an estimate for a fixed list of prompts (`prompts_are`)."""
        return False

    @classmethod
    def first_array(cls) -> str:
        """The name of the first array, for a batch that has only one."""
        return next(iter(cls.arrays))

    def check_bound(self, bound: str) -> None:
        """Raise FixError if the metric, with these settings, does not have the bound."""
        if bound not in self.bounds:
            raise FixError(f"metric {self.name!r} has the bounds {', '.join(self.bounds)}; got {bound!r}")

    @classmethod
    def has_errors(cls, bound: str) -> bool:
        """True if estimates of the bound have standard errors."""
        return bound == "influence" or bound in cls.strict

    def check_decides(self) -> None:
        """Raise FixError if it can only be watched."""
        if not self.decides:
            raise FixError(f"metric {self.name!r} cannot decide: it can only be watched")

    def in_direction(self, direction: str | None) -> Self:
        """The metric whose better scores are lower ("minimize") or higher ("maximize"); None is either.

        A metric with an unset setting `higher_is_better` takes the direction. Raises FixError where the direction
        differs from the metric's.
        """
        if direction not in (None, "minimize", "maximize"):
            raise FixError(f"direction: expected 'minimize' or 'maximize', got {direction!r}")
        own = "minimize" if self.lower_is_better else "maximize"
        if direction in (None, own):
            return self
        if "higher_is_better" in type(self).model_fields and "higher_is_better" not in self.model_fields_set:
            return self.model_copy(update={"higher_is_better": not self.setting("higher_is_better")})
        better = "lower" if self.lower_is_better else "higher"
        raise FixError(f"direction: {better} scores of {self.name!r} are better: expected {own!r}")

    def check_tolerance(self, tolerance: float | str) -> None:
        """Raise FixError if the tolerance is a share of the best score, which may be 0 or negative."""
        if isinstance(tolerance, str) and not self.positive:
            raise FixError(
                f"tolerance: scores of {self.name!r} may be 0 or negative, so that a share of them means nothing; "
                f"expected a number, got {tolerance!r}"
            )

    @classmethod
    def check_options(cls, bound: str, options: Iterable[str]) -> None:
        """Raise FixError if the bound does not take one of the options."""
        taken = cls.bounds[bound]
        if foreign := sorted(set(options) - taken):
            takes = ", ".join(sorted(taken)) or "none"
            raise FixError(f"bound {bound!r} has no option {', '.join(foreign)}: it takes {takes}")

    @classmethod
    def check_settings(cls, names: set[str]) -> None:
        """Raise FixError if the metric does not take one of the settings."""
        if foreign := sorted(names - cls.settings() - {"label", "reads"}):
            takes = ", ".join(sorted(cls.settings())) or "no settings"
            hint = kernel_hint(foreign, cls.kernels) or meant(foreign[0], cls.settings())
            raise FixError(f"metric {cls.name!r} takes {takes}; it does not take {', '.join(foreign)}{hint}")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The metric with these settings. Raises FixError with a message in one line if they are not valid."""
        cls.check_settings(set(settings))
        return cls(**settings)


_OF_KERNELS = frozenset({"sigma", "features", "landmarks", "omegas"})


def kernel_hint(foreign: Iterable[str], kernels: Collection[str] = ("kernel",)) -> str:
    """Hint on the syntax of a kernel's settings, as the end of a message, if a setting was given alone; else ""."""
    setting = next((name for name in foreign if name in _OF_KERNELS), None) if kernels else None
    return "" if setting is None else f": it is part of a kernel, kernel={{{setting!r}: …}}, as text kernel.{setting}=…"


DeclaredMetric = TypeVar("DeclaredMetric", bound=type[Metric])
_DECLARED: dict[str, type[Metric]] = {}


def declare(metric: DeclaredMetric) -> DeclaredMetric:
    """Register a metric under its name. Raises FixError if another class has the name."""
    first = _DECLARED.setdefault(metric.name, metric)
    if (first.__module__, first.__qualname__) != (metric.__module__, metric.__qualname__):
        raise FixError(f"metric {metric.name!r}: {first.__module__}.{first.__qualname__} has this name already")
    _DECLARED[metric.name] = metric
    return metric


def declared() -> dict[str, type[Metric]]:
    """All registered metrics by name, the project's first."""
    return dict(_DECLARED)


def find(name: object) -> type[Metric]:
    """The metric of this name. Raises FixError with the registered names if there is none."""
    if isinstance(name, str) and name in _DECLARED:
        return _DECLARED[name]
    raise FixError(f"unknown metric {brief(name)}: expected one of {', '.join(_DECLARED)}")


def setting_names() -> frozenset[str]:
    """The names of the settings of all registered metrics."""
    return frozenset[str]().union(*(metric.settings() for metric in _DECLARED.values()))


def setting_hint(foreign: Iterable[str]) -> str:
    """Hint on the syntax of a metric's setting, as the end of a message, if a setting was given alone; else ""."""
    setting = next((name for name in foreign if name in setting_names()), None)
    return "" if setting is None else f": it is a setting of a metric, given in it, as text metric='…:{setting}=…'"


def metric_of(metric: Any, **settings: Any) -> Metric:
    """The metric by name with its settings, where None means the default, or as an object.

    An object is a `Metric`, or a mapping with its `name` and its settings, as on the wire. Raises FixError for an
    unknown metric, for settings that are not valid, and for settings beside an object, which holds its own.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    if isinstance(metric, str):
        return find(metric).of(chosen)
    if is_mapping(metric):
        own = {str(name): setting for name, setting in metric.items() if name != "name"}
        metric = find(metric.get("name")).of(own)
    if not isinstance(metric, Metric):
        raise FixError(f"metric: expected a name, or an object with its name and settings; got {brief(metric)}")
    if chosen:
        raise FixError(
            f"{', '.join(chosen)}: given beside the metric {metric.name!r}, which is an object and holds its settings"
        )
    return metric
