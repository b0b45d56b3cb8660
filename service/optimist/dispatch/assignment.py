"""Which picks the asks of one moment get: a pure function of the state. No I/O."""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from optimist.dispatch.slices import Slice, next_slice
from optimist.dispatch.state import PolicyState
from optimist.policies import Arm
from optimist.store import AskGroup, NewPick, Opening
from optimist_client.models import AskRequest, Pick


@dataclass(frozen=True, slots=True)
class MostOpen:
    """How many picks of an experiment may be on their way at once: in all, of one worker, of one access key."""

    experiment: int
    worker: int
    key: int


class Assignment:
    """Answers asks one after the other, each seeing the picks before it as on their way: they are opened on the state.

    `returned` are the numbers of open picks that their workers got back.
    """

    def __init__(self, state: PolicyState, most_open: MostOpen, lease: float) -> None:
        """lease: seconds for which new picks count as on their way."""
        self._state = state
        self._most_open = most_open
        self._lease = lease
        self._before = state.stored.rounds, state.stored.last, state.stored.version
        self._groups: dict[str, list[NewPick]] = {}
        self._samples_left = state.samples_left
        self._cost_left = None if state.cost_left is None else state.cost_left - state.pending_cost
        self.returned: list[int] = []

    @property
    def opened(self) -> int:
        """How many picks are new."""
        return self._state.stored.rounds - self._before[0]

    def opening(self, exactly: bool) -> Opening | None:
        """The new picks, for the store to open; None where there are none. The state's version then counts them.

        exactly: only if nothing has changed since the state that they were chosen by; else, if no other picks were
        opened since.
        """
        if not self._groups:
            return None
        rounds, last, version = self._before
        self._state.stored.version = version + 1
        groups = [AskGroup(request_id, picks) for request_id, picks in self._groups.items()]
        return Opening(groups, self._lease, rounds, last, version if exactly else None, self._state.stored.mark)

    def answer(self, request: AskRequest, stale: bool, key: str = "") -> list[Pick]:
        """What this request gets: the picks it may have back, and new ones up to `count`, as far as the budget goes.

        key: id of the access key that asks.
        """
        kept = self._state.open_picks.owned(request)
        self.returned += [pick.number for pick in kept]
        # A repeat gets what it had, even where that was less than it asked for.
        if any(pick.request_id == request.request_id for pick in kept):
            return kept
        new: list[Pick] = []
        # One without a name is one worker, too.
        count = min(request.count, self._most_open.worker)
        while len(kept) + len(new) < count and self._has_room(request.worker, key):
            able = self._able(request)
            if not any(arm.active for arm in able):
                break
            new.append(self._next(able, request, stale, key))
        return kept + new

    def _has_room(self, worker: str | None, key: str) -> bool:
        """Whether the budgets, and how many picks may be open, leave room for one more."""
        picks, most = self._state.open_picks, self._most_open
        return (
            len(picks) < most.experiment
            and (worker is None or picks.of_worker(worker) < most.worker)
            and picks.of_key[key] < most.key
            and (self._samples_left is None or self._samples_left > 0)
            and (self._cost_left is None or self._cost_left > 0)
        )

    def _able(self, request: AskRequest) -> list[Arm]:
        """The arms, of which those are active that the request can have."""
        if request.generators is None:
            return self._state.arms
        return [replace(arm, active=arm.active and arm.name in request.generators) for arm in self._state.arms]

    def _next(self, able: list[Arm], request: AskRequest, stale: bool, key: str) -> Pick:
        """Choose and open one more pick."""
        state, stored, config = self._state, self._state.stored, self._state.config
        number = stored.rounds + 1
        chosen = state.policy.pick(able, stored.told, number)
        generator = state.contenders[chosen]
        cost = 0.0 if self._cost_left is None else state.costs.get(generator.name, 0.0)
        size = self._size(cost)
        part = None if config.prompts is None else next_slice(config, generator, size)
        size = size if part is None else part.size
        pick = Pick(
            experiment=config.name,
            instance=stored.instance,
            number=number,
            generator=generator.name,
            size=size,
            prompts=None if part is None else part.prompts,
            prompts_start=None if part is None else part.start,
            seed=pick_seed(config.seed, number),
            positions=[generator.estimate_seq for generator in state.contenders],
            batches=[arm.batches for arm in able],
            pending_samples=[arm.pending_samples for arm in able],
            pending_batches=[arm.pending_batches for arm in able],
            excluded=[arm.name for arm in able if not arm.active],
            retired=[generator.name for generator in stored.generators if generator.state == "retired"],
            told=stored.told,
            stale=stale,
            worker=request.worker,
            request_id=request.request_id or "",
            opened=time.time(),
        )
        nonce = secrets.token_hex(8)
        least, most = self._rows(size, part is not None)
        new = NewPick(generator.ordinal, pick.model_dump_json(), *_taken(part), nonce, least, most, key)
        pick = pick.model_copy(update={"nonce": nonce})
        state.open(pick, new, pick.opened + self._lease)
        self._groups.setdefault(pick.request_id, []).append(new)
        self._samples_left = None if self._samples_left is None else self._samples_left - size
        self._cost_left = None if self._cost_left is None else self._cost_left - size * cost
        return pick

    def _rows(self, size: int, is_prompted: bool) -> tuple[int, int]:
        """The least and the most rows that a pick's batch may have, the most 0 for any number."""
        if self._state.experiment.rules < 2:
            return 1, 0
        if is_prompted:
            return size, size
        return 1, 0 if self._state.config.allow_extra else size

    def _size(self, cost: float) -> int:
        """A batch, or what the budgets leave of it; that of cost is passed by less than one sample, at this `cost`."""
        size, left = self._state.config.batch_size, self._cost_left
        size = size if self._samples_left is None else min(size, self._samples_left)
        return math.ceil(left / cost) if left is not None and size * cost > left else size


def pick_seed(seed: int, number: int) -> int:
    """A 32-bit seed, distinct for each of 2³² picks of an experiment and the same whoever computes it."""
    return (_first_seed(seed) + number) % 2**32


@lru_cache(4096)
def _first_seed(seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def _taken(part: Slice | None) -> tuple[int | None, int, int | None]:
    """Start, size and origin of a slice, as `NewPick` has them."""
    return (None, 0, None) if part is None else (part.start, part.size, part.again)
