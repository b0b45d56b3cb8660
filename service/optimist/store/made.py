"""What scorers made of the logs of all generators, with what asks are answered from: mixtures, and models of contexts
with their tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from optimist.records import ChainedExtent, LogExtent, MixturePoint, RoutePoint, StoredMixture
from optimist.store import keys
from optimist.store.commands import Argument, Commands
from optimist.store.parsing import parse_mixture, parse_parts

REMEMBERED = 256
"""How many newest answers of `blend` are remembered for repeats."""


class Routes:
    """The part of `Store` about models of contexts, and the tables that show how prompts are routed."""

    _commands: Commands

    async def want_routes(self, experiment: str) -> None:
        """Announce on `keys.ROUTES` that somebody waits for the table of the logs as they are now."""
        await self._commands.call("PUBLISH", keys.ROUTES, f"{self._commands.full(experiment)} 0 0")

    async def put_routes(
        self,
        experiment: str,
        token: str,
        parts: Sequence[ChainedExtent],
        *,
        model: bytes = b"",
        table: str = "",
        point: str = "",
        kernels: str = "",
    ) -> bool:
        """Publish a model, or a table, or both; False if one exists that knows more of a generator's log.

        token: of a claim of `keys.ROUTES_UNIT`. model: `RouteModel.pack`; table: JSON of the caller; point: what
        `route_curve` keeps of the table, "" for nothing. kernels: `kernels_digest` of what was fixed from the first
        contexts, "" where nothing was. It removes the note of `put_scoring_error`. A model changes the version and
        the state token, and is announced on `keys.ROUTES_MADE`. Nothing is stored where False is returned, and nothing
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

    async def route_table(self, experiment: str) -> tuple[Mapping[int, LogExtent], str] | None:
        """The extents of the logs that the newest table was made of, and the table; None before the first."""
        parts, table = await self._read(experiment, "of", "table")
        return None if parts is None or table is None else (parse_parts(parts.decode()), table.decode())

    async def route_curve(self, experiment: str, start: int = 0) -> list[RoutePoint]:
        """The points kept of the tables, from index `start` on: whenever the samples have grown by a 32nd."""
        points = self._commands.key(experiment, f"curve:{keys.ROUTES_UNIT}")
        return [_route_point(entry) for entry in await self._commands.call("LRANGE", points, start, -1)]

    async def _read(self, experiment: str, *fields: str) -> Sequence[bytes | None]:
        return await self._commands.call("HMGET", self._commands.key(experiment, "routes"), *fields)


def _route_point(entry: bytes) -> RoutePoint:
    told, samples, listed, point = entry.decode().split(" ", 3)
    return RoutePoint(int(told), int(samples), parse_parts(listed), point)


class Mixtures:
    """The part of `Store` about mixtures. label: of the watched metric, "" for the primary one."""

    _commands: Commands

    async def want_mixture(self, experiment: str, label: str = "") -> None:
        """Announce on `keys.MIXTURES` that somebody waits for the mixture of the logs as they are now."""
        text = f"{self._commands.full(experiment)} 0 0"
        await self._commands.call("PUBLISH", keys.MIXTURES, f"{text} {label}" if label else text)

    async def put_mixture(
        self,
        experiment: str,
        payload: str,
        token: str,
        parts: Sequence[ChainedExtent],
        *,
        kernels: str = "",
        point: str = "",
        label: str = "",
    ) -> bool:
        """Publish a mixture; False if one exists that knows more of a generator's log.

        token: of a claim of `keys.MIXTURE` by this metric. payload: text of the caller; point: what `mixture_curve`
        keeps of it, "" for nothing. It removes the note of `put_scoring_error`. Where it is the experiment's goal, and
        the metric the primary one, it is announced on `keys.MIXTURES_MADE`, and picks are made from it.
        Raises Superseded where another owner has the claim, where a batch in it was retracted, and where Redis has
        another log, or other kernels, than it was made of.
        """
        if not parts or not payload:
            raise ValueError("a mixture has a payload, and one generator or more")
        stands = await self._commands.experiment_script(
            "put_mixture",
            experiment,
            label=label,
            payload=payload,
            token=token,
            point=point,
            kernels=kernels,
            channel=keys.MIXTURES_MADE,
            experiment=self._commands.full(experiment),
            parts=packed(parts),
        )
        return bool(stands[0])

    async def mixture(self, experiment: str, label: str = "") -> StoredMixture | None:
        """The newest mixture by a metric, None before the first."""
        return parse_mixture(await self._commands.call("HGET", self._commands.key(experiment, "mixtures"), label))

    async def mixture_error(self, experiment: str, label: str = "") -> str | None:
        """Why the mixture cannot be made by a metric; None while nothing is known against it."""
        unit = keys.unit(keys.MIXTURE, label)
        note = await self._commands.call("HGET", self._commands.key(experiment, "scoring_errors"), unit)
        return None if note is None else note.decode()

    async def mixture_curve(self, experiment: str, start: int = 0, label: str = "") -> list[MixturePoint]:
        """The points kept of the mixtures by a metric, from index `start` on.

        A point is kept whenever the samples of all generators have grown by a 32nd since the last.
        """
        points = self._commands.key(experiment, f"curve:{keys.unit(keys.MIXTURE, label)}")
        return [_point(entry) for entry in await self._commands.call("LRANGE", points, start, -1)]

    async def blend(
        self, experiment: str, weights: Mapping[int, float], size: int, request: str, *, instance: str | None = None
    ) -> dict[int, int]:
        """Share out `size` samples, so that all that were ever shared out make the mixture, as `policies.blend_counts`
        does.

        weights: by ordinal, at least 0. The credits of generators that are not named stay as they are. request: a
        repeat gets its answer again, as long as `REMEMBERED` newer ones have not come. Raises NotFound for an unknown
        generator, ValueError for weights without a positive sum.
        """
        if size < 1 or not request or any(letter.isspace() or letter == "#" for letter in request):
            raise ValueError("a mixture has a size, and a request without white space and number signs")
        total = math.fsum(weights.values())
        if not 0.0 < total < math.inf or min(weights.values()) < 0.0:
            raise ValueError(f"expected weights of at least 0 with a positive sum, got {list(weights.values())}")
        answer = await self._commands.experiment_script(
            "blend",
            experiment,
            request=request,
            size=size,
            remembered=REMEMBERED,
            shares=[{"generator": g, "share": repr(float(weight / total))} for g, weight in weights.items()],
            instance=instance,
        )
        counts = map(int, answer[0].split())
        return dict(zip(weights, counts, strict=True))


def packed(parts: Sequence[ChainedExtent]) -> list[dict[str, Argument]]:
    """The parts as arguments of a script that uses parts.lua."""
    return [
        {"generator": part.generator, "seq": part.seq, "samples": part.samples, "chain": part.chain} for part in parts
    ]


def _point(entry: bytes) -> MixturePoint:
    told, samples, listed, point = entry.decode().split(" ", 3)
    return MixturePoint(int(told), int(samples), parse_parts(listed), point)
