"""The names of embeddings by array: how a config and a tell give them, and whether the two agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optimist_client.errors import FixError
from optimist_client.validation import brief, is_mapping

if TYPE_CHECKING:
    from optimist_client.metrics import Metric


def spelled_out(
    embedding: str | None, embeddings: Mapping[str, str] | None, metrics: Iterable[Metric]
) -> tuple[str | None, dict[str, str] | None]:
    """The two fields of a config in the one form that is stored. The first of the `metrics` decides.

    An embedding of the array that this metric reads first is an `embedding` if no other array has one. Raises
    FixError if both fields are given, or for an array that no metric reads.
    """
    if embeddings is None:
        return embedding, None
    if embedding is not None:
        raise FixError("embedding, embeddings: expected one of the two")
    metrics = list(metrics)
    read = dict.fromkeys(name for metric in metrics for name in metric.array_names.values())
    if unknown := sorted(embeddings.keys() - read.keys()):
        raise FixError(f"embeddings: no metric reads {', '.join(unknown)}; the metrics read {', '.join(read)}")
    first = metrics[0].first_name
    return (embeddings.get(first), None) if embeddings.keys() <= {first} else (None, dict(embeddings))


def parsed(given: Iterable[str]) -> dict[str, str]:
    """The names by array of texts `<array>:<name>`. Raises FixError for another form, and for an array twice."""
    names: dict[str, str] = {}
    for text in given:
        array, colon, name = text.partition(":")
        if not (array and colon and name):
            raise FixError(f"embeddings: expected <array>:<name>, such as dinov2:dinov2-large; got {text!r}")
        if array in names:
            raise FixError(f"embeddings: the array {array!r} is given twice")
        names[array] = name
    return names


def check_embedders(embed: Any, arrays: Sequence[str], names: Mapping[str, str], first: str) -> None:
    """Raise FixError unless `embed` has functions of `arrays`, and embedders of these `names` by array.

    embed: a function that makes the array `first`, or all of them; a mapping of functions by array; or None.
    """
    functions: Mapping[str, Any] = embed if is_mapping(embed) else {first: embed}
    for array, function in functions.items() if is_mapping(embed) else ():
        if array not in arrays:
            raise FixError(f"embed: no metric reads {array!r}; the metrics read {', '.join(arrays)}")
        if not callable(function):
            raise FixError(f"embed: {array!r}: expected a function of the samples, got {brief(function)}")
    for array, name in names.items():
        actual = getattr(functions.get(array), "name", None)
        if actual != name:
            whose = "the experiment" if array == first else f"the array {array!r}"
            raise FixError(f"embed: {whose} takes embedding {name!r}; got one named {actual!r}")
