"""Which picks the asks of one moment get: a pure function of one look at the store. No I/O."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from optimist.dispatch.slices import Slice, Slices
from optimist.dispatch.views import View
from optimist.policies import Arm
from optimist.store import NewPick
from optimist_client.models import AskRequest, Pick


@dataclass(frozen=True, slots=True)
class Opening:
    """A pick, and as the store takes it."""

    pick: Pick
    record: NewPick


@dataclass(frozen=True, slots=True)
class MostOpen:
    """How many picks of an experiment may be on their way at once: in all, of one worker, of one access key."""

    experiment: int
    worker: int
    key: int


class Assignment:
    """Answers asks one after the other, each seeing the picks before it as on their way.

    `openings` are the new picks, in order; `returned` the numbers of open ones that their workers got back.
    """

    def __init__(self, view: View, most_open: MostOpen) -> None:
        self._most_open = most_open
        self._room = most_open.experiment - len(view.open_picks)
        self._of_worker = Counter(pick.worker for pick in view.open_picks)
        self._of_key = Counter(pick.key for pick in view.look.open_picks)
        self.openings: list[Opening] = []
        self.returned: list[int] = []
        self._view = view
        self._arms = list(view.arms)
        self._free = None if view.budget is None else view.budget - view.samples - view.pending
        self._cost_left = None if view.cost_left is None else view.cost_left - view.pending_cost
        self._slices = None if view.config.prompts is None else Slices(view.config, view.look.generators)

    def answer(self, request: AskRequest, stale: bool, key: str = "") -> list[Pick]:
        """What this request gets: the picks it may have back, and new ones up to `count`, as far as the budget goes.

        key: id of the access key that asks.
        """
        kept = _owned(request, [*self._view.open_picks, *(opening.pick for opening in self.openings)])
        self.returned += [pick.number for pick in kept]
        # A repeat gets what it had, even where that was less than it asked for.
        if any(pick.request_id == request.request_id for pick in kept):
            return kept
        able = self._able(request)
        if not any(arm.active for arm in able):
            return kept
        new: list[Pick] = []
        # One without a name is one worker, too.
        count = min(request.count, self._most_open.worker)
        while (
            len(kept) + len(new) < count
            and self._has_room(request.worker, key)
            and (self._free is None or self._free > 0)
            and (self._cost_left is None or self._cost_left > 0)
        ):
            new.append(self._next(able, request, stale, key))
        return kept + new

    def _has_room(self, worker: str | None, key: str) -> bool:
        return (
            len(self.openings) < self._room
            and (worker is None or self._of_worker[worker] < self._most_open.worker)
            and self._of_key[key] < self._most_open.key
        )

    def _able(self, request: AskRequest) -> list[Arm]:
        """The arms, of which those are active that the request can have."""
        if request.generators is None:
            return self._arms
        return [replace(arm, active=arm.active and arm.name in request.generators) for arm in self._arms]

    def _next(self, able: list[Arm], request: AskRequest, stale: bool, key: str) -> Pick:
        """Choose, and count as pending, one more pick."""
        view, config = self._view, self._view.config
        number = view.look.rounds + len(self.openings) + 1
        chosen = view.policy.pick(able, view.look.told, number)
        ordinal = view.contenders[chosen].ordinal
        cost = 0.0 if self._cost_left is None else view.costs.get(able[chosen].name, 0.0)
        size = self._size(cost)
        part = None if self._slices is None else self._slices.take(ordinal, size)
        size = size if part is None else part.size
        pick = Pick(
            experiment=config.name,
            instance=view.look.instance,
            number=number,
            generator=able[chosen].name,
            size=size,
            prompts=None if part is None else part.prompts,
            prompts_start=None if part is None else part.start,
            seed=pick_seed(config.seed, number),
            positions=[generator.estimate_seq for generator in view.contenders],
            batches=[arm.batches for arm in able],
            pending_samples=[arm.pending_samples for arm in able],
            pending_batches=[arm.pending_batches for arm in able],
            excluded=[arm.name for arm in able if not arm.active],
            retired=[generator.name for generator in view.look.generators if generator.state == "retired"],
            told=view.look.told,
            stale=stale,
            worker=request.worker,
            request_id=request.request_id or "",
            opened=time.time(),
        )
        nonce = secrets.token_hex(8)
        least, most = self._rows(size, part is not None)
        record = NewPick(ordinal, pick.model_dump_json(), *_taken(part), nonce, least, most, key)
        pick = pick.model_copy(update={"nonce": nonce})
        self.openings.append(Opening(pick, record))
        self._of_worker[request.worker] += 1
        self._of_key[key] += 1
        self._free = None if self._free is None else self._free - size
        self._arms[chosen] = _with_pending(self._arms[chosen], size)
        if able is not self._arms:
            able[chosen] = _with_pending(able[chosen], size)
        self._cost_left = None if self._cost_left is None else self._cost_left - size * cost
        return pick

    def _rows(self, size: int, is_prompted: bool) -> tuple[int, int]:
        """The least and the most rows that a pick's batch may have, the most 0 for any number."""
        if self._view.experiment.rules < 2:
            return 1, 0
        if is_prompted:
            return size, size
        return 1, 0 if self._view.config.allow_extra else size

    def _size(self, cost: float) -> int:
        """A batch, or what the budgets leave of it; that of cost is passed by less than one sample, at this `cost`."""
        size, left = self._view.config.batch_size, self._cost_left
        size = size if self._free is None else min(size, self._free)
        return math.ceil(left / cost) if left is not None and size * cost > left else size


def pick_seed(seed: int, number: int) -> int:
    """A 32-bit seed, distinct for each of 2³² picks of an experiment and the same whoever computes it."""
    return (_first_seed(seed) + number) % 2**32


@lru_cache(4096)
def _first_seed(seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def _with_pending(arm: Arm, size: int) -> Arm:
    return replace(arm, pending_samples=arm.pending_samples + size, pending_batches=arm.pending_batches + 1)


def _taken(part: Slice | None) -> tuple[int | None, int, int | None]:
    """Start, size and origin of a slice, as `NewPick` has them."""
    return (None, 0, None) if part is None else (part.start, part.size, part.again)


def _owned(request: AskRequest, picks: Sequence[Pick]) -> list[Pick]:
    """Picks that this request may have back: its worker's, or those an earlier try of the same request opened."""
    mine = [
        pick
        for pick in picks
        if pick.request_id == request.request_id or (request.worker is not None and pick.worker == request.worker)
    ]
    return mine[: request.count]
