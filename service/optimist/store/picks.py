"""Picks opened, renewed and ended, batches that come without one, and the previews of samples that come with either."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from optimist.records import (
    Contents,
    Copy,
    Exchanged,
    Gone,
    Opened,
    Opening,
    PickBatch,
    PreparedPreview,
    Settled,
    StoredPreview,
    StoreError,
)
from optimist.store import keys
from optimist.store.parsing import CachedState, parse_changes, parse_state, reading
from optimist.store.scripts import Argument, Commands, step

OPENING_LOCK_SECONDS = 0.5
"""Seconds after which the opening lock ends if its holder died."""


class StoredPreviews:
    """The part of `Store` about previews."""

    _commands: Commands

    async def put_previews(
        self,
        experiment: str,
        pick: int,
        previews: Sequence[PreparedPreview],
        max_kept: int,
        *,
        instance: str,
        nonce: str = "",
    ) -> tuple[int, int]:
        """Keep previews of a pick that was told; previews kept already, or replaced before, change nothing.

        max_kept: number kept per generator, half newest, half random by indices equal for all generators. nonce: of the
        pick; "" matches any pick with this number. Samples that do not count have no previews. Returns the
        generator, and the number of these previews that are kept. Raises Conflict for a pick without a batch that
        counts, Retracted for a pick whose batch counts no longer, Gone for an unknown pick, Refused for a place beyond
        the batch, NotFound without the experiment, or where the name has another `instance`.
        """
        generator, kept = await self._commands.experiment_script(
            "put_previews",
            experiment,
            instance=instance,
            number=pick,
            nonce=nonce,
            max_kept=max_kept,
            items=[
                {
                    "place": preview.place,
                    "index": "" if preview.index is None else preview.index,
                    "rank": "" if preview.rank is None else repr(preview.rank),
                    "about": preview.about,
                    "body": preview.body,
                }
                for preview in previews
            ],
        )
        return int(generator), kept

    async def previews(self, experiment: str) -> list[tuple[str, StoredPreview]]:
        """The kept previews with their generators' names, in the generators' order, newest first."""
        names = await self._commands.call("HGETALL", self._commands.key(experiment, "generators"))
        ordinals = sorted(map(int, names))
        answers = await self._commands.call_many([("HGETALL", self._key(experiment, g)) for g in ordinals])
        return [
            (names[b"%d" % g].decode(), preview)
            for g, entries in zip(ordinals, answers, strict=True)
            for preview in _parsed(g, entries)
        ]

    async def preview(
        self, experiment: str, generator: int, pick: int, place: int
    ) -> tuple[StoredPreview, bytes] | None:
        """A preview with its bytes; None if it is not kept (any more)."""
        name = f"{pick}-{place}"
        key = self._key(experiment, generator)
        entry, body = await self._commands.call_many([("HGET", key, name), ("HGET", f"{key}:bodies", name)])
        if entry is None or body is None:
            return None
        return _parsed(generator, {name.encode(): entry})[0], body

    async def previews_at(
        self, experiment: str, wanted: Sequence[tuple[int, int]]
    ) -> list[tuple[StoredPreview, bytes] | None]:
        """The previews of samples by their generator and index, with their bytes; None of each that is not kept."""
        keys_of = [self._key(experiment, g) for g, _ in wanted]
        names = await self._commands.call_many(
            [("HGET", f"{key}:places", index) for key, (_, index) in zip(keys_of, wanted, strict=True)]
        )
        answers = await self._commands.call_many(
            [
                ("HGET", part, b"" if name is None else name)
                for key, name in zip(keys_of, names, strict=True)
                for part in (key, f"{key}:bodies")
            ]
        )
        pairs = zip(wanted, names, answers[::2], answers[1::2], strict=True)
        return [
            None if name is None or entry is None or body is None else (_parsed(g, {name: entry})[0], body)
            for (g, _), name, entry, body in pairs
        ]

    async def shown_indices(self, experiment: str, generators: Sequence[int]) -> set[int]:
        """The indices of samples of which a preview is kept of each of these generators."""
        keys_of = [f"{self._key(experiment, g)}:places" for g in generators]
        answers = await self._commands.call_many([("HKEYS", key) for key in keys_of])
        shared, *others = [{int(index) for index in indices} for indices in answers] or [set[int]()]
        return shared.intersection(*others)

    def _key(self, experiment: str, generator: int) -> str:
        return f"{self._commands.key(experiment, 'previews')}:{generator}"


def _parsed(generator: int, stored: dict[bytes, bytes]) -> list[StoredPreview]:
    previews: list[StoredPreview] = []
    for name, entry in stored.items():
        pick, _, place = name.decode().partition("-")
        head, _, about = entry.decode().partition("\t")
        position, _, index = head.split(" ")
        number = int(index) if index else None
        previews.append(StoredPreview(generator, int(pick), int(place), int(position), number, about))
    return sorted(previews, key=lambda preview: (-preview.position, preview.place))


class Picks:
    """The part of `Store` about picks and batches.

    instance, where a method takes it: `ExperimentState.instance` of the intended experiment. The method raises NotFound
    where this experiment was deleted and its name reused.

    """

    _commands: Commands

    async def renew_leases(self, experiment: str, numbers: Sequence[int], seconds: float) -> list[int]:
        """Extend leases to at least `seconds` from now. Returns the leased picks; expired leases stay expired."""
        return await self._commands.experiment_script("renew_leases", experiment, seconds=seconds, numbers=numbers)

    async def exchange(
        self,
        experiment: str,
        batches: Sequence[PickBatch] = (),
        opening: Opening | None = None,
        *,
        wants_state: bool = False,
        who: str = "",
        cached: CachedState | None = None,
        instance: str | None = None,
    ) -> Exchanged:
        """Settle batches and open picks, or else read the state, in one step that is durable when this returns.

        The result of each accepted batch is `Settled`: log, counts, due position and history change together. A batch
        counts although the lease ran out, a decision was latched, or the generator was paused or retired. A repeated
        batch (same pick, same digest) gets the first answer again. No index of a generator counts twice: a batch counts
        without rows told before, and a batch of nothing else is a duplicate, whatever it contains. The result of a
        refused batch is an error, which is returned, not raised: Conflict if the pick was told with another digest or
        given up, Gone if its end is no longer remembered or Redis has lost the pick, as a wrong nonce shows, Refused
        for a wrong number of rows, or a batch that fails the checks.

        Then the picks of `opening` are opened, numbered in order, if the experiment is as the opening expects it. They
        are not opened if, since the state was read, other picks were opened, a decision was latched, the experiment was
        stopped, a generator was paused or retired, or a slice to be handed out `again` was taken; nor while somebody
        other than `who` has the opening lock. A repeated ask gets its first picks again. Raises ValueError for a group
        without picks, a request id that holds a tab, and a request id or an `again` that comes twice.

        wants_state: return the state if no picks were opened. who: take the opening lock together with the
        state, for `OPENING_LOCK_SECONDS` or until picks are opened. A caller that lost against others passes `who`, so
        that its next attempt succeeds. While somebody else has the opening lock, no state is returned. cached: a state
        read before; only its changes are read again.
        """
        expected = opening or _NOTHING
        sought = reading(cached if wants_state else None)
        groups, new_picks = ([], []) if opening is None else _opening(opening)
        before, after, unforeseen, settled, opened, state = await self._commands.experiment_script(
            "exchange",
            experiment,
            channel=keys.DUE,
            wants_state=int(wants_state),
            milliseconds=int(1000 * OPENING_LOCK_SECONDS),
            batches=[
                {
                    "number": batch.pick,
                    "nonce": batch.nonce,
                    "digest": batch.contents.digest,
                    "rows": batch.contents.rows,
                    "body": batch.contents.body,
                    "measures": "" if batch.contents.measures is None else str(batch.contents.measures),
                }
                for batch in batches
            ],
            who=who,
            expected_rounds=expected.rounds,
            expected_last=expected.last,
            expected_version="" if expected.version is None else expected.version,
            expected_token=expected.state_token,
            lease_seconds=expected.lease,
            groups=groups,
            new_picks=new_picks,
            since=sought.since,
            since_token=sought.since_token,
            since_rounds=sought.since_rounds,
            renewed=sought.renewed,
            held=sought.held,
            instance=instance,
        )
        read = None
        if state is not None and cached is not None and cached.instant is not None:
            read = parse_changes(state, cached)
            if read is None:
                whole = replace(cached, instant=None)
                again = await self.exchange(experiment, wants_state=True, who=who, cached=whole, instance=instance)
                read = again.state
        elif state is not None:
            read = await parse_state(state, None if cached is None else cached.stored)
        return Exchanged(
            before=before.decode(),
            after=after.decode(),
            settled=[result if isinstance(result, StoreError) else _settled(result) for result in map(step, settled)],
            opened=None if opened is None else _opened(step(opened)),
            state=read,
            is_foreseen=not unforeseen,
        )

    async def check_pick(self, experiment: str, number: int) -> None:
        """Raise the error that `exchange` returns for an unknown pick, Gone."""
        picks, settled, counts = (self._commands.key(experiment, part) for part in ("picks", "settled", "counts"))
        *existing, rounds = await self._commands.call_many(
            [("HEXISTS", picks, number), ("HEXISTS", settled, number), ("HGET", counts, "rounds")]
        )
        if not any(existing):
            if 0 < number <= int(rounds or 0):
                raise Gone(f"pick {number} ended too long ago: its end is no longer known")
            raise Gone(f"no pick {number} was given, or Redis has lost it")

    async def give_up(
        self, experiment: str, pick: int, reason: str, *, nonce: str = "", instance: str | None = None
    ) -> None:
        """Return a pick unsampled; idempotent. nonce: of the pick; "": accept any pick with this number.

        Raises Conflict if it was told, Gone if its end is no longer remembered, or if Redis has lost the pick,
        NotFound if it was never opened.
        """
        await self._commands.experiment_script(
            "give_up",
            experiment,
            number=pick,
            reason=reason,
            nonce=nonce,
            instance=instance,
        )

    async def has_ended(self, experiment: str, pick: int) -> bool:
        """True if a pick is no longer open: a tell would be answered, and nothing stored."""
        return not await self._commands.call("HEXISTS", self._commands.key(experiment, "picks"), pick)

    async def was_appended(self, experiment: str, generator: int, key: str) -> bool:
        """True if `append` would answer for this key without storing anything."""
        return bool(
            await self._commands.call("HEXISTS", self._commands.key(experiment, "appended"), f"{generator}\t{key}")
        )

    async def append(
        self,
        experiment: str,
        generator: int,
        key: str,
        contents: Contents,
        *,
        start: int | None = None,
        instance: str | None = None,
    ) -> Settled:
        """Accept a batch without a pick. It counts like a told one, and is durable when this returns.

        key: idempotency key, separate for each generator: a repeat with the same key gets the first answer again. A key
        is remembered for a day or until `settled_limit` newer keys came, whichever is shorter; after that,
        a repeat counts again. start: index of the first row in the generator's sequence, which picks then continue
        behind the batch; None: its rows have no indices. Indices told before do not count, as in `exchange`.
        Raises Conflict for a key that came with another digest or start, NotFound for an unknown generator, Refused for
        a batch that does not pass the checks, or with a `start` where samples have no indices.
        """
        if not key:
            raise ValueError("a batch without a pick has a key")
        answer = await self._commands.experiment_script(
            "append",
            experiment,
            generator=generator,
            key=key,
            start="" if start is None else start,
            digest=contents.digest,
            rows=contents.rows,
            body=contents.body,
            measures="" if contents.measures is None else str(contents.measures),
            channel=keys.DUE,
            seconds=24 * 3600,
            instance=instance,
        )
        return _settled(answer)


def _settled(answer: Sequence[Any]) -> Settled:
    """The answer for a batch, as `answer_of` in retracted.lua makes it, with the `note` of checking.lua."""
    text, duplicate, *rest = answer
    version, oddity = rest or (0, b"")
    pick, generator, rows, samples, batches, seq, late, uncounted = map(int, text.split()[:8])
    doubt, _, copied = oddity.decode().partition("\t")
    return Settled(
        *(pick, generator, rows, samples, batches, seq, bool(late), bool(duplicate), uncounted, version),
        copy=Copy.from_stored(seq, copied) if copied and not copied.startswith("\t") else None,
        doubtful=doubt == "1",
    )


_NOTHING = Opening((), lease=0.0, rounds=0)
"""Arguments of opening.lua where nothing is to be opened."""


def _opening(opening: Opening) -> tuple[list[dict[str, Argument]], list[dict[str, Argument]]]:
    """The groups and the new picks of an opening as opening.lua takes them. Raises ValueError for what cannot be
    opened."""
    groups: dict[str, dict[str, Argument]] = {}
    picks: list[dict[str, Argument]] = []
    for group in opening.groups:
        if not group.picks:
            raise ValueError("an ask opens at least one pick")
        if group.request_id in groups or "\t" in group.request_id:
            raise ValueError("request ids must differ from one another and hold no tab")
        groups[group.request_id] = {"request": group.request_id, "size": len(group.picks)}
        for pick in group.picks:
            part = pick.part
            picks.append(
                {
                    "generator": pick.generator,
                    "slice": "" if part is None else f"{part.start} {part.size}",
                    "again": 1 if part is not None and part.again else "",
                    "left": 0 if part is None else part.left,
                    "terms": f"{pick.nonce} {pick.min_rows} {pick.max_rows}",
                    "key": pick.key,
                    "worker": pick.worker,
                    "asked": "" if part is None else _digest_of(part.prompts),
                    "prompts": "" if part is None else ",".join(map(str, part.prompt_indices or ())),
                    "record": pick.record,
                    "context": pick.context,
                }
            )
    return list(groups.values()), picks


def _digest_of(prompts: Sequence[str] | None) -> str:
    """Digest by which scripts compare the prompts of two picks; "" for none."""
    return "" if prompts is None else hashlib.sha1("\0".join(prompts).encode()).hexdigest()[:8]


def _opened(answer: list[Any] | StoreError) -> Opened | StoreError | None:
    if isinstance(answer, StoreError):
        return answer
    outcome, *answers = answer
    if outcome == b"moved":
        return None
    numbers: dict[str, list[int]] = {}
    for request, listed in zip(answers[::2], answers[1::2], strict=True):
        numbers[request.decode()] = list(map(int, listed.split(b",")))
    return Opened(numbers, repeated=outcome == b"repeated")
