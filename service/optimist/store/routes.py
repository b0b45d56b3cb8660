"""How an experiment routes prompts: the model that asks are answered from, and what is shown of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimist.store.commands import Commands
from optimist.store.mixtures import MixedPart
from optimist.store.state import Part


@dataclass(frozen=True, slots=True)
class RoutePoint:
    """A table of routes as charts keep it: `point` is the caller's text."""

    told: int
    samples: int
    parts: Mapping[int, Part]
    point: str


class Routes:
    """The part of `Store` about routes."""

    _commands: Commands

    async def want_routes(self, experiment: str) -> None:
        """Announce on `keys.ROUTES` that somebody waits for the table of the logs as they are now."""
        raise NotImplementedError

    async def put_routes(
        self,
        experiment: str,
        token: str,
        parts: Sequence[MixedPart],
        *,
        model: bytes = b"",
        table: str = "",
        point: str = "",
        kernels: str = "",
    ) -> bool:
        """Publish a model, or a table, or both; False if one exists that knows more of a generator's log.

        token: of a claim of `keys.ROUTES_UNIT`. model: `RouteModel.pack`; table: JSON of the caller; point: what
        `route_curve` keeps of it. A model changes the version and the mark of the state, and is announced on
        `keys.ROUTES_MADE`. Raises Superseded as `put_mixture` does.
        """
        raise NotImplementedError

    async def route_model(self, experiment: str) -> tuple[str, bytes] | None:
        """Name and bytes of the newest model; None before the first. The name is `StoredRoutes.made` of the state."""
        raise NotImplementedError

    async def route_table(self, experiment: str) -> tuple[Mapping[int, Part], str] | None:
        """What the newest table was made of, and the table; None before the first."""
        raise NotImplementedError

    async def route_curve(self, experiment: str, start: int = 0) -> list[RoutePoint]:
        """The points kept of the tables, from index `start` on: whenever the samples have grown by a 32nd."""
        raise NotImplementedError
