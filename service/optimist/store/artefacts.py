"""Artefacts that scorers derive from logs (mixtures, models, tables, modes), and the sharing of a
mixture's samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from optimist.records import Artefact, ArtefactPoint, ChainedExtent, StoredArtefact
from optimist.store import keys
from optimist.store.parsing import parse_artefact, parse_parts
from optimist.store.scripts import Commands


class Artefacts:
    """The part of `Store` about artefacts."""

    _commands: Commands

    async def want(self, experiment: str, artefact: Artefact) -> None:
        """Announce on `keys.WANTED` that somebody waits for it as it is made of the logs as they are now."""
        await self._commands.call("PUBLISH", keys.WANTED, f"{self._commands.full(experiment)} 0 0 {artefact.name}")

    async def put_artefact(
        self,
        experiment: str,
        artefact: Artefact,
        payload: str | bytes,
        token: str,
        parts: Sequence[ChainedExtent],
        *,
        kernels: str = "",
        point: str = "",
    ) -> bool:
        """Publish an artefact; False if the stored one covers more of a generator's log.

        token: of a claim of `keys.claimed_for` the artefact. payload: of the caller; point: its text for
        `artefact_curve`, or "". kernels: `kernels_digest` of the kernels fixed from the first samples, or "". The note
        of `put_scoring_error` is removed, unless the note is about a generator. Artefacts that picks are made from (the
        deciding metric's model, and the mixture where it is the goal) change the version and the state
        token, and are announced on `keys.SCORED`.
        Raises Superseded where another owner has the claim, where a batch of the artefact was retracted, and where
        Redis has another log or other kernels than the artefact was derived from.
        """
        if not parts or not payload:
            raise ValueError("an artefact has a payload, and one generator or more")
        stands = await self._commands.experiment_script(
            "put_artefact",
            experiment,
            artefact=artefact.name,
            unit=keys.unit(keys.claimed_for(artefact), artefact.label),
            label=artefact.label,
            payload=payload,
            token=token,
            point=point,
            kernels=kernels,
            channel=keys.SCORED,
            parts=[
                {"generator": part.generator, "seq": part.seq, "samples": part.samples, "chain": part.chain}
                for part in parts
            ],
        )
        return bool(stands[0])

    async def artefact(self, experiment: str, artefact: Artefact) -> StoredArtefact | None:
        """The newest version of an artefact, None before the first."""
        name = artefact.name
        fields = [f"{name}:{part}" for part in ("made", "parts", "payload")]
        stored = await self._commands.call("HMGET", self._commands.key(experiment, "artefacts"), *fields)
        return parse_artefact(*stored)

    async def artefact_error(self, experiment: str, artefact: Artefact) -> str | None:
        """The note why it cannot be made; None without one."""
        unit = keys.unit(keys.claimed_for(artefact), artefact.label)
        return await self._commands.text("HGET", self._commands.key(experiment, "units"), f"{unit}:error")

    async def artefact_curve(self, experiment: str, artefact: Artefact, start: int = 0) -> list[ArtefactPoint]:
        """The points kept of it, from index `start` on: whenever the samples of all have grown by a 32nd."""
        points = self._commands.key(experiment, f"curve:{artefact.name}")
        return [_point(entry) for entry in await self._commands.call("LRANGE", points, start, -1)]

    async def blend(
        self, experiment: str, weights: Mapping[int, float], size: int, request: str, *, instance: str | None = None
    ) -> dict[int, int]:
        """Share out `size` samples, so that all shared out so far make the mixture, as in `policies.blend_counts`.

        weights: by ordinal, at least 0. The credits of generators that are not named stay as they are. request: a
        repeat gets the first answer, until 256 newer requests have come. Raises NotFound for an unknown
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
            remembered=256,
            shares=[{"generator": g, "share": repr(float(weight / total))} for g, weight in weights.items()],
            instance=instance,
        )
        counts = map(int, answer[0].split())
        return dict(zip(weights, counts, strict=True))


def _point(entry: bytes) -> ArtefactPoint:
    told, samples, listed, point = entry.decode().split(" ", 3)
    return ArtefactPoint(int(told), int(samples), parse_parts(listed), point)
