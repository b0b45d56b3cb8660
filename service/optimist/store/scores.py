"""Results that scorers publish about a generator. Every write has the token of a claim, which the scripts check."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from optimist.records import Claim, CurvePoint, LogEntry, StoreError
from optimist.store import keys
from optimist.store.scripts import Commands, step

NOTHING_READ: Mapping[int, LogEntry] = MappingProxyType({})
QUARANTINE_LIMIT = 256
"""Maximum number of unreadable batches that an experiment names; further ones are only counted."""


class Scores:
    """The part of `Store` about claims, and results published under them.

    label: of the metric that something is about. A generator has a claim for each.
    token: of the caller's claim. Methods that take it raise Superseded when the generator has another claim now; an
    expired claim is valid until another owner takes over.
    chain: `LogEntry.chain` at the log position that something was derived at, "" where it is not known. kernels:
    `kernels_digest` of kernels fixed from the first samples, or "". Methods that take them raise
    Superseded when Redis has another log, or other kernels, because it has lost its last writes.
    """

    _commands: Commands

    async def claim(
        self, experiment: str, generator: keys.ClaimSubject, owner: str, seconds: float, label: str
    ) -> Claim | None:
        """Claim a generator for `seconds`, which are the same for all owners; None while another owner has the claim.

        generator: its ordinal; or `keys.MIXTURE` for the mixture of all, `keys.MODEL_UNIT` for their model.

        A claim with more than `seconds` left counts as expired: the clock of Redis was set back.

        An owner that has the claim, even an expired one, keeps its token. Any other owner gets a token never used
        before, not even for a deleted experiment of this name. Raises NotFound for an unknown generator or label.
        """
        [answer] = await self._claims(experiment, [(generator, label)], owner, seconds)
        if isinstance(answer, StoreError):
            raise answer
        return _claim(answer)

    async def claims(
        self, experiment: str, units: Sequence[tuple[keys.ClaimSubject, str]], owner: str, seconds: float
    ) -> list[Claim | None]:
        """Claim several units in one step, each as `claim` does; also None for unknown generators and labels.

        Raises NotFound for an unknown experiment.
        """
        answers = await self._claims(experiment, units, owner, seconds)
        return [None if isinstance(answer, StoreError) else _claim(answer) for answer in answers]

    async def present(self, owner: str, seconds: float) -> list[str]:
        """Register a scorer for so many seconds more. Returns the owners of all registered scorers."""
        owners = await self._commands.script("present", [keys.SCORERS], owner=owner, seconds=seconds)
        return [name.decode() for name in owners]

    async def leave(self, owner: str) -> None:
        """Remove a scorer's registration."""
        await self._commands.call("ZREM", keys.SCORERS, owner)

    async def _claims(
        self, experiment: str, units: Sequence[tuple[keys.ClaimSubject, str]], owner: str, seconds: float
    ) -> list[list[Any] | StoreError]:
        if not owner:
            raise ValueError("a claim has an owner")
        answers = await self._commands.experiment_script(
            "claim",
            experiment,
            owner=owner,
            seconds=seconds,
            wanted=[{"generator": generator, "label": label} for generator, label in units],
        )
        return [step(answer) for answer in answers]

    async def end_claim(self, experiment: str, generator: keys.ClaimSubject, token: str, label: str) -> None:
        """End a claim, so that others can claim the generator at once; nothing happens if another owner has it."""
        await self._commands.experiment_script("end_claim", experiment, unit=keys.unit(generator, label), token=token)

    async def is_claimed(self, experiment: str) -> bool:
        """True if a scorer has an unexpired claim of a generator, of the mixture or of the routes."""
        # By the clock of Redis, which set the deadlines.
        reads = [("ZRANGE", self._commands.key(experiment, "claimed_until"), -1, -1, "WITHSCORES"), ("TIME",)]
        last, (seconds, _) = await self._commands.call_many(reads)
        return any(float(until) > int(seconds) for _, until in last)

    async def put_estimate(
        self,
        experiment: str,
        generator: int,
        seq: int,
        payload: str,
        token: str,
        *,
        label: str,
        chain: str = "",
        kernels: str = "",
        point: str = "",
    ) -> bool:
        """Publish an estimate made at log position `seq`; False if one as new or newer exists.

        Only one by the metric that decides is announced, and changes the state that picks are made from. It removes
        the note of `put_scoring_error`. point: its text for `curves`, or "".
        """
        stands = await self._commands.experiment_script(
            "put_estimate",
            experiment,
            generator=generator,
            label=label,
            seq=seq,
            payload=payload,
            token=token,
            point=point,
            chain=chain,
            kernels=kernels,
            channel=keys.SCORED,
        )
        return bool(stands[0])

    async def curves(self, experiment: str, starts: Sequence[int], label: str) -> list[list[CurvePoint]]:
        """The points kept of the estimates of generators 0, 1, 2, …, of each from its index in `starts` on.

        A point is kept whenever the log position has grown by a 32nd since the last: some 400 at a million batches.
        """
        lists = [self._commands.key(experiment, f"curve:{keys.unit(g, label)}") for g in range(len(starts))]
        reads = [("LRANGE", points, start, -1) for points, start in zip(lists, starts, strict=True)]
        return [[_curve_point(entry) for entry in entries] for entries in await self._commands.call_many(reads)]

    async def put_fitted(
        self,
        experiment: str,
        generator: keys.ClaimSubject,
        payload: bytes,
        token: str,
        logs: Mapping[int, LogEntry] = NOTHING_READ,
        *,
        label: str,
    ) -> bytes:
        """Store the kernels that the first samples fixed, once; returns the stored payload, which is the first.

        generator: the subject of the token's claim. logs: the last entry that was read of each generator's log.
        """
        stands = await self._commands.experiment_script(
            "put_fitted",
            experiment,
            generator=generator,
            label=label,
            payload=payload,
            token=token,
            kernels=kernels_digest(payload),
            logs=[{"generator": g, "seq": entry.seq, "chain": entry.chain} for g, entry in logs.items()],
        )
        return stands[0]

    async def fitted(self, experiment: str, label: str) -> bytes | None:
        """The kernels that `put_fitted` stored; None before that, or where there is no such experiment."""
        return await self._commands.call("GET", self._commands.key(experiment, f"fitted:{label}"))

    async def quarantine(
        self, experiment: str, generator: int, seq: int, reason: str, token: str, *, label: str, chain: str = ""
    ) -> None:
        """Record that a batch of the log cannot be read, by any metric; its body stays until the log is trimmed.

        label: of the metric whose claim the token is; a batch counts once for all metrics. Call it in the order of the
        log; idempotent, as a takeover needs.
        """
        await self._commands.experiment_script(
            "quarantine",
            experiment,
            generator=generator,
            label=label,
            seq=seq,
            reason=reason,
            token=token,
            chain=chain,
            max_named=QUARANTINE_LIMIT,
        )

    async def put_scoring_error(
        self, experiment: str, generator: keys.ClaimSubject, note: str, token: str, label: str
    ) -> None:
        """Note why a generator cannot be scored by a metric, or mixture or model be made; the latest note counts."""
        unit = keys.unit(generator, label)
        await self._commands.experiment_script("put_scoring_error", experiment, unit=unit, note=note, token=token)


def kernels_digest(fitted: bytes | None) -> str:
    """SHA-1 (hex) of the kernels that `put_fitted` stored; "" for none."""
    return "" if fitted is None else hashlib.sha1(fitted).hexdigest()


def _claim(answer: Sequence[Any]) -> Claim | None:
    return Claim(answer[0].decode(), float(answer[1]), bool(answer[2])) if answer else None


def _curve_point(entry: bytes) -> CurvePoint:
    told, seq, point = entry.decode().split(" ", 2)
    return CurvePoint(int(told), int(seq), point)
