"""How an experiment routes prompts: the model that asks are answered from, and what is shown of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimist.records import MixedPart, Part, RoutePoint
from optimist.store import keys
from optimist.store.commands import Commands
from optimist.store.mixtures import packed
from optimist.store.parsing import parse_parts


class Routes:
    """The part of `Store` about routes."""

    _commands: Commands

    async def want_routes(self, experiment: str) -> None:
        """Announce on `keys.ROUTES` that somebody waits for the table of the logs as they are now."""
        await self._commands.call("PUBLISH", keys.ROUTES, f"{self._commands.full(experiment)} 0 0")

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
        `route_curve` keeps of the table, "" for nothing. kernels: `kernels_digest` of what was fixed from the first
        contexts, "" where nothing was. It removes the note of `put_damage`. A model changes the version and the mark of
        the state, and is announced on `keys.ROUTES_MADE`. Nothing is stored where False is returned, and nothing
        changes where both are there already. Raises Superseded as `put_mixture` does.
        """
        if not parts or not (model or table):
            raise ValueError("routes have a model or a table, and one generator or more")
        stands = await self._commands.experiment_script(
            "put_routes",
            experiment,
            token=token,
            model=model,
            table_text=table,
            point=point,
            kernels=kernels,
            channel=keys.ROUTES_MADE,
            experiment=self._commands.full(experiment),
            parts=packed(parts),
        )
        return bool(stands[0])

    async def route_model(self, experiment: str) -> tuple[str, bytes] | None:
        """Name and bytes of the newest model; None before the first. The name is `StoredRoutes.made` of the state."""
        made, model = await self._read(experiment, "made", "model")
        return None if made is None or model is None else (made.decode().split(" ", 1)[0], model)

    async def route_table(self, experiment: str) -> tuple[Mapping[int, Part], str] | None:
        """What the newest table was made of, and the table; None before the first."""
        parts, table = await self._read(experiment, "of", "table")
        return None if parts is None or table is None else (parse_parts(parts.decode()), table.decode())

    async def route_curve(self, experiment: str, start: int = 0) -> list[RoutePoint]:
        """The points kept of the tables, from index `start` on: whenever the samples have grown by a 32nd."""
        points = self._commands.key(experiment, f"curve:{keys.ROUTES_UNIT}")
        return [_point(entry) for entry in await self._commands.call("LRANGE", points, start, -1)]

    async def _read(self, experiment: str, *fields: str) -> Sequence[bytes | None]:
        return await self._commands.call("HMGET", self._commands.key(experiment, "routes"), *fields)


def _point(entry: bytes) -> RoutePoint:
    told, samples, listed, point = entry.decode().split(" ", 3)
    return RoutePoint(int(told), int(samples), parse_parts(listed), point)
