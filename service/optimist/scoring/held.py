"""One generator that this process scores: caught up with its log under a claim, published, and snapshotted."""

from __future__ import annotations

import json
import logging
from functools import partial

from optimist.insight.metrics import SCORING_SECONDS, SET_ASIDE, SNAPSHOTS
from optimist.scoring.questions import Asked, InThread
from optimist.scoring.warm import Scored, WarmGenerator
from optimist.store import Damaged, LogEntry, LogGap, Store, Superseded

LONGEST_TAIL = 8 * 2**20
"""The same while the statistic is not known."""

logger = logging.getLogger(__name__)


class Held:
    """A generator's warm statistic and the token of the claim that it is published under."""

    def __init__(self, store: Store, in_thread: InThread, name: str, ordinal: int, asked: Asked, token: str) -> None:
        self.token = token
        self.asked = asked
        self.wants_modes = False
        self._store = store
        self._in_thread = in_thread
        self._name = name
        self._ordinal = ordinal
        self._warm: WarmGenerator | None = None
        self.room = LONGEST_TAIL
        """Bytes that the log may have beyond the snapshot before another one takes its place."""
        self.bytes = 0
        """Of the statistic and what makes its estimates cheap, while it is warm."""
        self._published = 0

    def cool(self) -> None:
        """Drop the statistic: snapshot and log lead to it again, bit for bit, when there is something to do."""
        self._warm = None
        self.bytes = 0

    async def catch_up(self) -> None:
        """Take what the log holds, publish the estimate that is due, and put a snapshot in place of a long log.

        Raises Superseded once another scorer has the claim, Damaged where neither snapshot nor log can be read,
        ArithmeticError where an estimate cannot be made.
        """
        try:
            await self._take()
        except LogGap as error:
            # Trimmed by a scorer that had the claim meanwhile, or cut short with a Redis that lost its end: the
            # snapshot leads on, but kernels that were fixed may be lost with it.
            self._warm, self._published = None, 0
            if self.asked.kernels:
                raise Superseded(str(error)) from None
            try:
                await self._take()
            except LogGap as error:
                raise Damaged(str(error)) from None
        if self._warm is not None:
            self.room, self.bytes = self._warm.room, self._warm.memory

    async def _take(self) -> None:
        warm = self._warm = self._warm or await self._resume()
        warm.published = self._published
        while entries := await self._next(warm):
            step = await self._in_thread(warm.apply, entries)
            chains = {entry.seq: entry.chain for entry in entries}
            for seq, reason in step.unreadable:
                logger.warning("batch %d of %s/%d is set aside: %s", seq, self._name, self._ordinal, reason)
                SET_ASIDE.inc()
                await self._store.set_aside(self._name, self._ordinal, seq, reason, self.token, chain=chains[seq])
            if step.scored is not None:
                await self._publish(step.scored)
            # After the estimate: nobody could make it again from a snapshot of a later position.
            if warm.has_outgrown():
                body = await self._in_thread(warm.freeze)
                await self._store.put_snapshot(
                    self._name, self._ordinal, warm.seq, body, self.token, chain=warm.chain, kernels=self.asked.kernels
                )
                warm.snapshot_taken(len(body))
                SNAPSHOTS.inc()
        if self.wants_modes and not warm.is_empty:
            self.wants_modes = False
            name = (await self._store.state(self._name)).generators[self._ordinal].name
            made = await self._in_thread(warm.modes, name)
            await self._store.put_modes(
                *(self._name, self._ordinal, warm.seq, made.model_dump_json(), self.token),
                chain=warm.chain,
                kernels=self.asked.kernels,
            )

    async def _next(self, warm: WarmGenerator) -> list[LogEntry]:
        """The next entries of the log. Raises LogGap where it is not the one that was taken so far."""
        return await self._store.read_log(self._name, self._ordinal, warm.seq, chain=warm.chain)

    async def _resume(self) -> WarmGenerator:
        """From the snapshot, if there is one; from the log alone otherwise."""
        asked = self.asked
        try:
            snapshot = await self._store.snapshot(self._name, self._ordinal)
            if snapshot is not None:
                thaw = partial(WarmGenerator.thaw, chain=snapshot.chain)
                return await self._in_thread(thaw, snapshot.body, snapshot.seq, asked.bound, asked.growth)
        except (Damaged, ValueError) as error:
            # A log that was kept whole leads to the same statistic; a trimmed one does not.
            if not await self._has_whole_log():
                raise Damaged(f"{error}; the log before it is trimmed") from None
            logger.warning("%s/%d is scored from its log: %s", self._name, self._ordinal, error)
        return WarmGenerator(asked.bound, asked.growth)

    async def _has_whole_log(self) -> bool:
        try:
            await self._store.read_log(self._name, self._ordinal, 0, max_entries=1)
        except LogGap:
            return False
        return True

    async def _publish(self, scored: Scored) -> None:
        SCORING_SECONDS.labels(self.asked.bound.metric.name, scored.route).observe(scored.seconds)
        payload = json.dumps(scored.estimate.to_dict(), allow_nan=False)
        point = json.dumps(scored.estimate.point, separators=(",", ":"))
        await self._store.put_estimate(
            *(self._name, self._ordinal, scored.seq, payload, self.token),
            chain=scored.chain,
            kernels=self.asked.kernels,
            point=point,
        )
        self._published = scored.seq
