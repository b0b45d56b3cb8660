"""What scorers publish about a generator. Every write has the token of a claim, which the scripts check."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from optimist.store import keys
from optimist.store.commands import Commands, step
from optimist.store.errors import StoreError
from optimist.store.records import Claim, CurvePoint, LogEntry

NOTHING_READ: Mapping[int, LogEntry] = MappingProxyType({})
ASIDE_LIMIT = 256
"""How many unreadable batches an experiment names; further ones are only counted."""


class Scores:
    """The part of `Store` about claims, and what is published under them.

    token: of the caller's claim. Methods that take it raise Superseded when the generator has another claim now; an
    expired claim is valid until another owner takes over.
    chain: `LogEntry.chain` at the log position that something was derived at, "" where the log has none. kernels:
    `kernels_digest` of what was fixed from the first samples, "" where nothing was. Methods that take them raise
    Superseded when Redis has another log, or other kernels, because it has lost its last writes.
    """

    _commands: Commands

    async def claim(self, experiment: str, generator: int, owner: str, seconds: float) -> Claim | None:
        """Claim a generator for `seconds`, which are the same for all owners; None while another owner has the claim.

        A claim that would last longer than `seconds` counts as expired: the clock of Redis was set back.

        An owner that has the claim, even an expired one, keeps its token. Any other owner gets a new one, never used
        before, not even under a deleted experiment of this name. Raises NotFound for an unknown generator.
        """
        [found] = await self._claims(experiment, [generator], owner, seconds)
        if isinstance(found, StoreError):
            raise found
        return _claim(found)

    async def claims(
        self, experiment: str, generators: Sequence[int], owner: str, seconds: float
    ) -> list[Claim | None]:
        """Claim several generators in one step, each as `claim` does; also None for unknown generators.

        Raises NotFound for an unknown experiment.
        """
        found = await self._claims(experiment, generators, owner, seconds)
        return [None if isinstance(one, StoreError) else _claim(one) for one in found]

    async def _claims(
        self, experiment: str, generators: Sequence[int], owner: str, seconds: float
    ) -> list[list[Any] | StoreError]:
        if not owner:
            raise ValueError("a claim has an owner")
        answers = await self._commands.experiment_script(
            "claim", experiment, owner=owner, seconds=seconds, ordinals=generators
        )
        return [step(answer) for answer in answers]

    async def end_claim(self, experiment: str, generator: int, token: str) -> None:
        """End a claim, so that others can claim the generator at once; nothing happens if another owner has it."""
        await self._commands.experiment_script("end_claim", experiment, generator=generator, token=token)

    async def put_estimate(
        self,
        experiment: str,
        generator: int,
        seq: int,
        payload: str,
        token: str,
        *,
        chain: str = "",
        kernels: str = "",
        point: str = "",
    ) -> bool:
        """Publish an estimate made at log position `seq`; False if one as new or newer exists.

        It removes the note of `put_damage`. point: what `curves` keeps of it, "" for nothing.
        """
        stands = await self._commands.experiment_script(
            "put_estimate",
            experiment,
            generator=generator,
            seq=seq,
            payload=payload,
            token=token,
            point=point,
            chain=chain,
            kernels=kernels,
            channel=keys.SCORED,
            experiment=self._commands.full(experiment),
        )
        return bool(stands[0])

    async def curves(self, experiment: str, starts: Sequence[int]) -> list[list[CurvePoint]]:
        """The points kept of the estimates of generators 0, 1, 2, …, of each from its index in `starts` on.

        A point is kept whenever the log position has grown by a 32nd since the last: some 400 at a million batches.
        """
        reads = [("LRANGE", self._commands.key(experiment, f"curve:{g}"), start, -1) for g, start in enumerate(starts)]
        return [[_curve_point(entry) for entry in entries] for entries in await self._commands.call_many(reads)]

    async def put_fitted(
        self, experiment: str, generator: int, payload: bytes, token: str, logs: Mapping[int, LogEntry] = NOTHING_READ
    ) -> bytes:
        """Store the kernels that the first samples fixed, once; returns what is stored, which is the first payload.

        generator: the one that the token's claim is for. logs: the last entry that was read of each generator's log.
        """
        stands = await self._commands.experiment_script(
            "put_fitted",
            experiment,
            generator=generator,
            payload=payload,
            token=token,
            kernels=kernels_digest(payload),
            logs=[{"generator": g, "seq": entry.seq, "chain": entry.chain} for g, entry in logs.items()],
        )
        return stands[0]

    async def fitted(self, experiment: str) -> bytes | None:
        """What `put_fitted` stored; None before that, or where there is no such experiment."""
        return await self._commands.call("GET", self._commands.key(experiment, "fitted"))

    async def want_modes(self, experiment: str, generator: int) -> None:
        """Announce on `keys.MODES` that a client waits for a generator's modes."""
        await self._commands.call("PUBLISH", keys.MODES, f"{self._commands.full(experiment)} {generator} 0")

    async def put_modes(
        self, experiment: str, generator: int, seq: int, payload: str, token: str, *, chain: str = "", kernels: str = ""
    ) -> bool:
        """Publish a generator's modes at log position `seq`; False if newer ones exist."""
        stands = await self._commands.experiment_script(
            "put_modes",
            experiment,
            generator=generator,
            seq=seq,
            payload=payload,
            token=token,
            chain=chain,
            kernels=kernels,
            channel=keys.MODES_MADE,
            experiment=self._commands.full(experiment),
        )
        return bool(stands[0])

    async def modes(self, experiment: str, generator: int) -> tuple[int, str] | None:
        """The log position and payload of a generator's newest modes, None before the first."""
        entry = await self._commands.call("HGET", self._commands.key(experiment, "modes"), generator)
        if entry is None:
            return None
        seq, payload = entry.decode().split(" ", 1)
        return int(seq), payload

    async def set_aside(
        self, experiment: str, generator: int, seq: int, reason: str, token: str, *, chain: str = ""
    ) -> None:
        """Record that a batch of the log cannot be read; its body stays until the log is trimmed.

        Call it in the order of the log; idempotent, as a takeover needs.
        """
        await self._commands.experiment_script(
            "set_aside",
            experiment,
            generator=generator,
            seq=seq,
            reason=reason,
            token=token,
            chain=chain,
            most_named=ASIDE_LIMIT,
        )

    async def put_damage(self, experiment: str, generator: int, note: str, token: str) -> None:
        """Note why a generator cannot be scored at all, for the state to show; the latest note counts."""
        await self._commands.experiment_script("put_damage", experiment, generator=generator, note=note, token=token)


def kernels_digest(fitted: bytes | None) -> str:
    """SHA-1 (hex) of what `put_fitted` stored; "" for nothing."""
    return "" if fitted is None else hashlib.sha1(fitted).hexdigest()


def _claim(answer: Sequence[Any]) -> Claim | None:
    return Claim(answer[0].decode(), float(answer[1]), bool(answer[2])) if answer else None


def _curve_point(entry: bytes) -> CurvePoint:
    told, seq, point = entry.decode().split(" ", 2)
    return CurvePoint(int(told), int(seq), point)
