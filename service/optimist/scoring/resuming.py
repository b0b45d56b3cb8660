"""A generator's statistic from its snapshot, or from the beginning of its log."""

from __future__ import annotations

import logging
from functools import partial

from optimist.records import Damaged, LogGap, RetractedLog
from optimist.scoring.experiments import ScoredExperiment
from optimist.scoring.threads import InThread
from optimist.scoring.warm import WarmGenerator
from optimist.store import Store

_log = logging.getLogger(__name__)


async def resumed(
    store: Store, in_thread: InThread, place: tuple[str, int], label: str, experiment: ScoredExperiment
) -> WarmGenerator:
    """The statistic from the snapshot if there is one, otherwise an empty one. place: experiment and ordinal.

    Raises Damaged if the snapshot cannot be read, and the log before it was trimmed.
    """
    # Before the snapshot: one of a batch that is retracted meanwhile is then noticed by the log.
    retracted = await store.retracted_log(*place)
    try:
        snapshot = await store.snapshot(*place, label)
        if snapshot is not None:
            known = {"chain": snapshot.chain, "retracted": retracted, "ordinal": place[1]}
            thaw = partial(WarmGenerator.thaw, **known, **experiment.tracked)
            return await in_thread(thaw, snapshot.body, snapshot.seq, experiment.bound, experiment.growth)
    except (Damaged, ValueError) as error:
        # From an untrimmed log the same statistic can be computed.
        if not await _has_whole_log(store, place, retracted):
            raise Damaged(f"{error}; the log before it is trimmed") from None
        _log.warning("%s/%d%s is scored from its log: %s", *place, label and f" by {label}", error)
    return WarmGenerator(experiment.bound, experiment.growth, retracted, ordinal=place[1], **experiment.tracked)


async def _has_whole_log(store: Store, place: tuple[str, int], retracted: RetractedLog) -> bool:
    try:
        await store.read_log(*place, max(0, retracted.restart - 1), max_entries=1)
    except LogGap:
        return False
    return True
