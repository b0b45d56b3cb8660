"""The basis of an answer: rows and distinct rows, rows without a score, how rows were paired, what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import computed_field

from optimist_client.wire import Answer, optional


class Basis(Answer):
    """The basis of an answer."""

    rows: dict[str, int]
    """Rows that count, by generator."""
    distinct: dict[str, int] = optional({})
    """Of features, how many of these differ from all others, where some do not."""
    shared: dict[str, int] = optional({})
    """Of features, how many of these are rows of the reference."""
    missing: dict[str, int] = optional({})
    """Rows that had no score, and were left out or got 0."""
    unselected: dict[str, int] = optional({})
    """Rows that conditions (`--where`) left out."""
    fields: tuple[str, ...] = optional(())
    """The fields that were scored, where rows have fields."""
    paired_by: str | None = optional()
    """Key by which rows of several generators belong together: a field, "name" or "place"; None: they do not."""
    common: int | None = optional()
    """Number of rows that all paired generators have in common."""
    left_out: tuple[str, ...] = optional(())
    """Files that were left out, and why."""
    notes: tuple[str, ...] = optional(())
    """Notes on what was done to samples, and what is odd about them."""

    def renamed(self, name: str) -> Basis:
        """The basis of a single generator, by another name."""
        counts = {key: sum(getattr(self, key).values()) for key in ("distinct", "shared", "missing", "unselected")}
        return self.model_copy(update={field: {name: count} for field, count in counts.items() if count})

    @computed_field
    @property
    def text(self) -> str:
        """One sentence."""
        parts = [_counted(self.rows, "rows")]
        if self.distinct:
            parts.append(_named(self.distinct, "distinct"))
        if self.shared:
            parts.append(_named(self.shared, "of the reference"))
        if self.fields:
            parts.append(f"scored by {', '.join(self.fields[:3])}{' …' if len(self.fields) > 3 else ''}")
        if self.paired_by is not None:
            by = "their order" if self.paired_by == "place" else self.paired_by
            parts.append(f"paired by {by}" + ("" if self.common is None else f" ({self.common:,} in common)"))
        if self.missing:
            parts.append(_named(self.missing, "without a score"))
        if self.unselected:
            parts.append(f"{sum(self.unselected.values()):,} not selected")
        said = [", ".join(parts)]
        if self.left_out:
            said.append(f"left out: {', '.join(self.left_out)}")
        return f"Rests on {'; '.join([*said, *self.notes])}."


def merged(parts: Iterable[Basis]) -> Basis:
    """The basis of several generators together."""
    several = [*parts]

    def all_of(field: str) -> dict[str, int]:
        return {name: count for basis in several for name, count in getattr(basis, field).items()}

    def each_of(field: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for basis in several for text in getattr(basis, field)))

    counts: dict[str, Any] = {key: all_of(key) for key in ("rows", "distinct", "shared", "missing", "unselected")}
    return Basis(**counts, fields=each_of("fields"), left_out=each_of("left_out"), notes=each_of("notes"))


def _counted(counts: Mapping[str, int], what: str) -> str:
    """Counts by name, or one for all."""
    if len({*counts.values()}) == 1:
        return f"{next(iter(counts.values())):,} {what}{' each' if len(counts) > 1 else ''}"
    return f"{', '.join(f'{count:,}' for count in counts.values())} {what}"


def _named(counts: Mapping[str, int], what: str, max_names: int = 3) -> str:
    """Counts by name, of the first generators, and how many more there are."""
    shown = [f"{count:,} of {name}" for name, count in counts.items()]
    more = f" and {len(shown) - max_names:,} more" if len(shown) > max_names else ""
    return f"{' and '.join(shown[:max_names])}{more} {what}"
