"""An experiment read from the store into an archive, while it goes on."""

from __future__ import annotations

import asyncio

from optimist.archive.file import ArchivedGenerator, ArchiveWriter, Contents, cut_history
from optimist.store import Damaged, GeneratorState, LogGap, Look, NotFound, Snapshot, Store, Unavailable
from optimist_client.models import Experiment, Pick

_ENTRIES = 256
"""Most batches of one page."""
_ATTEMPTS = 20
"""How often a generator is read anew when its log is trimmed meanwhile."""


class Exporting:
    """Writes one experiment. In memory there is a page of a log at a time, or one snapshot."""

    def __init__(self, store: Store, experiment: Experiment, writer: ArchiveWriter) -> None:
        self._store = store
        self._experiment = experiment
        self._name = experiment.config.name
        self._writer = writer

    async def run(self) -> None:
        """Write all of it. What was told after the first look is left out.

        Raises Damaged where a snapshot cannot be read and the log before it is gone, Unavailable where the log is
        trimmed faster than it can be read, NotFound where the experiment is deleted meanwhile.
        """
        first = await self._look()
        rounds = first.rounds
        generators: list[ArchivedGenerator] = []
        positions: list[int] = []
        for generator in first.generators:
            look, archived = await self._generator(first, generator.ordinal)
            rounds = max(rounds, look.rounds)
            generators.append(archived)
            positions.append(look.generators[generator.ordinal].seq)
        await self._add_shared()
        history = await self._store.history(self._name)
        await self._look()
        sizes = await self._store.usual_sizes(self._name, len(generators))
        contents = Contents(
            experiment=self._experiment,
            rounds=rounds,
            controls=first.controls,
            decision=first.decision,
            generators=generators,
            sizes=sizes,
        )
        await asyncio.to_thread(self._writer.finish, contents, cut_history(history, positions))

    async def _look(self) -> Look:
        look = await self._store.look(self._name)
        if look.instance != self._experiment.instance:
            raise NotFound(f"experiment {self._name!r} was deleted while it was exported")
        return look

    async def _generator(self, look: Look, ordinal: int) -> tuple[Look, ArchivedGenerator]:
        """Write one generator as of this look, or of a later one where its log was trimmed."""
        for _ in range(_ATTEMPTS):
            try:
                return look, await self._copy(look, look.generators[ordinal])
            except LogGap:
                look = await self._look()
        raise Unavailable(f"the log of {look.generators[ordinal].name!r} is trimmed faster than it can be read")

    async def _copy(self, look: Look, state: GeneratorState) -> ArchivedGenerator:
        """Raises LogGap where the log, or the snapshot, is no longer that of the look."""
        position = 0 if look.keep_log else state.snapshot_seq
        is_whole = position == 0
        pages: list[str] = []
        while position < state.seq:
            most = min(_ENTRIES, state.seq - position)
            entries = await self._store.read_log(self._name, state.ordinal, position, max_entries=most)
            if not entries:
                raise LogGap(f"the log of {state.name!r} is another one by now")
            pages.append(await asyncio.to_thread(self._writer.add_page, entries))
            position = entries[-1].seq
        # After the log: a newer one than the look's leads on as well, but for one past the last page.
        snapshot = await self._snapshot(state, is_whole)
        if snapshot is not None:
            await asyncio.to_thread(self._writer.add_snapshot, state.ordinal, snapshot.body)
        return ArchivedGenerator(
            name=state.name,
            state=state.state,
            handed=state.handed,
            returned=_returned(look, state),
            estimate_position=state.estimate_seq,
            estimate=state.estimate,
            aside={entry.seq: entry.reason for entry in state.aside},
            aside_count=state.aside_count,
            suspects={entry.seq: entry.stored for entry in state.suspects},
            large=state.large,
            copies=state.copies,
            twins=state.twins,
            snapshot_position=0 if snapshot is None else snapshot.seq,
            pages=pages,
        )

    async def _snapshot(self, state: GeneratorState, is_whole: bool) -> Snapshot | None:
        """The snapshot, None where the whole log does without."""
        try:
            snapshot = await self._store.snapshot(self._name, state.ordinal)
        except Damaged:
            if is_whole:
                return None
            raise
        if snapshot is not None and snapshot.seq <= state.seq:
            return snapshot
        if is_whole:
            return None
        raise LogGap(f"the snapshot of {state.name!r} is another one by now")

    async def _add_shared(self) -> None:
        fitted = await self._store.fitted(self._name)
        if fitted is not None:
            await asyncio.to_thread(self._writer.add_fitted, fitted)
        name = self._experiment.config.setting("reference")
        if name is not None:
            reference = await self._store.references.get(name)
            if reference is None:
                raise Damaged(f"reference {name!r} is gone")
            await asyncio.to_thread(self._writer.add_reference, *reference)


def _returned(look: Look, state: GeneratorState) -> list[tuple[int, int, int]]:
    """Slices of prompts to be handed out again: open picks are not exported, so theirs are among them."""
    slices = [(ended.pick, ended.start, ended.size) for ended in state.returned]
    if state.state != "retired":
        records = [pick.record for pick in look.open_picks if pick.generator == state.ordinal]
        picks = [Pick.model_validate_json(record) for record in records]
        slices += [(pick.number, pick.prompts_start, pick.size) for pick in picks if pick.prompts_start is not None]
    return sorted(slices)
