"""What came of an attack."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .tenants import Neighbour


@dataclass
class Outcome:
    """The outcome of an attack: phrases for the table, and the numbers in them."""

    figures: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def note(self, text: str, **numbers: Any) -> None:
        """Add a figure."""
        self.figures.append(text)
        self.numbers |= numbers

    def waited(self, neighbour: Neighbour, begun: float, ended: float, what: str = "others") -> None:
        """The waiting times of the other tenant between these times, p50 / p99 / longest, and its rounds per second."""
        parts = {kind: neighbour.between(begun, ended, kind) for kind in ("ask", "tell")}
        pace = neighbour.pace(begun, ended)
        text = ", ".join(f"{kind} {waits}" for kind, waits in parts.items())
        self.note(f"{what}: {text}, {pace:.0f} rounds/s", **{
            what: {"rounds a second": pace, **{kind: asdict(waits) for kind, waits in parts.items()}}
        })  # fmt: skip
