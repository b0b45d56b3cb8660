"""Copies an experiment from the store into an archive while the experiment continues."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter

from optimist.archive.contents import (
    DUPLICATES,
    LEVELS,
    PAGE_ENTRIES,
    TOLD,
    ArchivedGenerator,
    ArchivedUnit,
    Manifest,
    shared_fields,
)
from optimist.archive.file import ArchiveWriter, cut_history
from optimist.records import (
    CorruptData,
    ExperimentState,
    GeneratorState,
    LogEntry,
    LogGap,
    NotFound,
    Returned,
    Said,
    Unavailable,
    UnitState,
    joined,
    returned_limit,
)
from optimist.store import Store
from optimist_client.errors import FixError
from optimist_client.models import Experiment, ExperimentConfig, Pick


class Exporter:
    """Writes one experiment to an archive. It holds one page of a log or one snapshot in memory at a time."""

    def __init__(self, store: Store, experiment: Experiment, writer: ArchiveWriter) -> None:
        self._store = store
        self._experiment = experiment
        self._name = experiment.config.name
        self._writer = writer

    async def run(self) -> None:
        """Write the whole experiment as of the start of the export; later batches are left out.

        Raises CorruptData if a snapshot cannot be read and the log before it was trimmed, Unavailable if the log is
        trimmed faster than it can be read, NotFound if the experiment is deleted meanwhile, FixError for more told
        runs of indices than an archive holds.
        """
        first = await self._state()
        rounds = first.rounds
        generators: list[ArchivedGenerator] = []
        states: list[GeneratorState] = []
        for generator in first.generators:
            stored, archived = await self._generator(first, generator.ordinal)
            rounds = max(rounds, stored.rounds)
            generators.append(archived)
            states.append(stored.generators[generator.ordinal])
        await self._add_shared(first.labels)
        history = await self._store.history(self._name)
        said = _cut_said(await self._store.said(self._name), states)
        answers = Counter(record.generator for record in said if record.is_entry)
        batches = [state.seq - len(state.retractions) - answers[state.ordinal] for state in states]
        await self._state()
        sizes = await self._store.usual_sizes(self._name, len(generators))
        contents = Manifest(
            experiment=self._experiment,
            rounds=rounds,
            controls=first.controls,
            of_workers=_handed_in(first),
            decision=first.decision,
            generators=generators,
            sizes=sizes,
        )
        await asyncio.to_thread(self._writer.finish, contents, cut_history(history, batches), said)

    async def _state(self) -> ExperimentState:
        stored = await self._store.state(self._name, told=True, all_metrics=True)
        if stored.instance != self._experiment.instance:
            raise NotFound(f"experiment {self._name!r} was deleted during the export")
        return stored

    async def _generator(self, stored: ExperimentState, ordinal: int) -> tuple[ExperimentState, ArchivedGenerator]:
        """Write one generator as of the given state, or of a later one (returned) if its log was trimmed."""
        for _ in range(20):
            try:
                return stored, await self._copy(stored, stored.generators[ordinal])
            except LogGap:
                stored = await self._state()
        generator = stored.generators[ordinal].name
        raise Unavailable(f"the log of generator {generator!r} is trimmed faster than it can be read: try again")

    async def _copy(self, stored: ExperimentState, state: GeneratorState) -> ArchivedGenerator:
        """Write one generator's log and snapshots. Raises LogGap if they no longer match the given state."""
        if len(state.told) > TOLD:
            raise FixError(
                f"generator {state.name!r}: expected at most {TOLD:,} runs of indices that were told, which is what an "
                f"archive holds, found {len(state.told):,}: tell samples of the indices between them"
            )
        beginning = max(0, state.restart - 1)
        oldest = min(unit.snapshot_seq for unit in state.units.values())
        position = 0 if stored.keep_log else max(oldest, beginning)
        is_whole = position <= beginning
        (levels,) = await self._store.levels(self._name, [state.ordinal])
        pages: list[str] = []
        while position < state.seq:
            count = min(PAGE_ENTRIES, state.seq - position)
            entries = await self._store.read_log(self._name, state.ordinal, position, max_entries=count)
            if not entries:
                raise LogGap(f"the log of {state.name!r} changed during the export")
            pages += [await asyncio.to_thread(self._writer.add_page, page) for page in _pages(entries)]
            position = entries[-1].seq
        # Read the snapshots after the log. A newer snapshot may be usable too.
        snapshots = {label: await self._snapshot(state, label, unit, is_whole) for label, unit in state.units.items()}
        shared = shared_fields(state)
        shared["returned"] = _returned(stored, state)
        shared["duplicates"] = dict(sorted(state.duplicates.items(), key=itemgetter(1))[-DUPLICATES:])
        return ArchivedGenerator(
            **shared,
            levels=[level for level in levels if level.position <= state.seq][:LEVELS],
            units={
                label: ArchivedUnit(
                    estimate_position=unit.estimate_seq, estimate=unit.estimate, snapshot_position=snapshots[label]
                )
                for label, unit in state.units.items()
            },
            pages=pages,
        )

    async def _snapshot(self, state: GeneratorState, label: str, unit: UnitState, is_whole: bool) -> int:
        """Write the snapshot by one metric, and return its position; 0 if none is needed, as the whole log is written.

        unit: the given state by this metric.
        """
        try:
            snapshot = await self._store.snapshot(self._name, state.ordinal, label)
        except CorruptData:
            if is_whole:
                return 0
            raise
        if snapshot is not None and snapshot.seq <= state.seq:
            # The scorer publishes an estimate before it stores a snapshot at its position or later, from which it could
            # not be made. A newer snapshot may need an estimate that the given state does not have yet.
            is_newer = snapshot.seq > unit.snapshot_seq
            if not (is_newer and unit.estimate_seq < state.due_seq <= snapshot.seq):
                await asyncio.to_thread(self._writer.add_snapshot, state.ordinal, snapshot.body, label)
                return snapshot.seq
        if is_whole:
            return 0
        raise LogGap(f"the snapshot of {state.name!r} changed during the export")

    async def _add_shared(self, labels: Sequence[str]) -> None:
        for label in labels:
            fitted = await self._store.fitted(self._name, label)
            if fitted is not None:
                await asyncio.to_thread(self._writer.add_fitted, fitted, label)
        for name in references_of(self._experiment.config):
            reference = await self._store.references.get(name)
            if reference is None:
                raise CorruptData(f"the reference {name!r} of the experiment is missing")
            await asyncio.to_thread(self._writer.add_reference, name, *reference)


def _returned(stored: ExperimentState, state: GeneratorState) -> list[Returned]:
    """Indices to be handed out again: open picks are not exported, so theirs are among them."""
    slices = [*state.returned]
    if state.state != "retired":
        records = [pick.record for pick in stored.open_picks if pick.generator == state.ordinal]
        picks = [Pick.model_validate_json(record) for record in records]
        starts = [pick.prompts_start if pick.start is None else pick.start for pick in picks]
        slices += [Returned(at, pick.size) for pick, at in zip(picks, starts, strict=True) if at is not None]
    return joined(slices)[: returned_limit(len(stored.generators))]


def _cut_said(said: Sequence[Said], states: Sequence[GeneratorState]) -> list[Said]:
    """Scores by people up to these states of the generators' logs."""
    return [record for record in said if record.generator < len(states) and record.seq <= states[record.generator].seq]


def _pages(entries: Sequence[LogEntry], max_bytes: int = 2**20) -> Iterator[list[LogEntry]]:
    """The entries in groups, each with so few bytes of records that parsing them is short."""
    page, size = list[LogEntry](), 0
    for entry in entries:
        page.append(entry)
        size += len(entry.record or "")
        if size > max_bytes:
            yield page
            page, size = [], 0
    if page:
        yield page


def references_of(config: ExperimentConfig) -> list[str]:
    """Names of the references of all metrics, the deciding metric's first."""
    named = (metric.setting("reference") for metric in config.metrics.values())
    return list(dict.fromkeys(name for name in named if name is not None))


def _handed_in(stored: ExperimentState) -> dict[str, int]:
    """Number of batches of each worker, where these are limited; the archive has no open picks."""
    workers = Counter(stored.of_workers)
    if workers:
        workers.subtract(Pick.model_validate_json(leased.record).worker or "" for leased in stored.open_picks)
    return dict(+workers)
