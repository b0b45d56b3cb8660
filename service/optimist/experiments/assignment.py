"""Chooses the picks for the asks of one round from the state. No I/O."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimist.experiments.goals.asked import AskedContext
from optimist.experiments.slices import grown_size, next_slice, pick_seed, slice_seed
from optimist.experiments.state import PolicyState
from optimist.policies import Arm
from optimist.records import AskedPrompt, AskGroup, GeneratorState, NewPick, Opening
from optimist_client.models import AskRequest, ExperimentConfig, Pick, WaitReason


@dataclass(frozen=True, slots=True)
class PickLimits:
    """The limits on open picks of an experiment: in total, per worker, per access key; and for how long."""

    experiment: int
    worker: int
    key: int
    lease: float = math.inf
    """Seconds. An experiment made under another setting, or elsewhere, may ask for more."""

    def lease_of(self, config: ExperimentConfig) -> float:
        """Seconds for which new picks of an experiment count as open."""
        return min(config.lease, self.lease)


NO_LIMIT = PickLimits(2**31, 2**31, 2**31)


class Assignment:
    """Answers asks one after the other, from a state that it changes: each new pick is opened on it at once.

    Later choices so consider the picks before them. If the store does not open the picks, the state is wrong: read it
    anew. `returned` has the numbers of picks that were open already and that their workers got again.
    """

    def __init__(self, state: PolicyState, pick_limits: PickLimits) -> None:
        self._state = state
        self._pick_limits = pick_limits
        self._lease = pick_limits.lease_of(state.config)
        self._before = state.stored.rounds, state.stored.last, state.stored.version
        self._groups: dict[str, list[NewPick]] = {}
        self._is_held = state.is_held
        self._samples_left = state.samples_left
        self._cost_left = None if state.cost_left is None else state.cost_left - state.pending_cost
        self.returned: list[int] = []
        self.lacked: WaitReason | None = None
        """The reason why the newest ask got fewer picks than it asked for; None if it did not."""

    @property
    def opened(self) -> int:
        """The number of new picks that were chosen."""
        return self._state.stored.rounds - self._before[0]

    def opening(self, exactly: bool) -> Opening | None:
        """The new picks for the store to open, or None. Increments the state's version, as the store will do.

        exactly: open them only if nothing at all has changed since the state that they were chosen from; otherwise
        they are opened unless other picks were opened since.
        """
        if not self._groups:
            return None
        rounds, last, version = self._before
        self._state.stored.version = version + 1
        groups = [AskGroup(request_id, picks) for request_id, picks in self._groups.items()]
        return Opening(groups, self._lease, rounds, last, version if exactly else None, self._state.stored.state_token)

    def refuses(self, request: AskRequest, key: str = "", contexts: Sequence[AskedContext] | None = None) -> bool:
        """True if this request gets no pick, not even an open one, because of a budget or a limit on open picks."""
        owned = self._state.open_picks.owned(request, contexts is not None)
        return not owned and self.lacking(request.worker, key) is not None

    def answer(
        self, request: AskRequest, stale: bool, key: str = "", contexts: Sequence[AskedContext] | None = None
    ) -> Iterator[Pick]:
        """The picks for this request: its own open ones first, then new ones up to `count` within the budgets.

        Each is chosen as it is taken. key: id of the access key that asks. contexts: of the request; it gets one pick
        for each instead.
        """
        self.lacked = None
        kept = self._state.open_picks.owned(request, contexts is not None)
        self.returned += [pick.number for pick in kept]
        yield from kept
        # A repeated request gets the same picks again, even if they are fewer than it asked for.
        if any(pick.request_id == request.request_id for pick in kept):
            return
        # An ask without a worker name counts as one worker.
        wanted = request.count if contexts is None else len(contexts)
        count = min(wanted, self._pick_limits.worker)
        for index in range(count - len(kept)):
            able = self._state.able(request.generators)
            self.lacked = self.lacking(request.worker, key) or self._lacking_of(able, request.generators)
            if self.lacked is not None:
                return
            yield self._next(able, request, stale, key, None if contexts is None else contexts[index])
        self.lacked = WaitReason.WORKER_PICKS if count < wanted else None

    def lacking(self, worker: str | None = None, key: str = "") -> WaitReason | None:
        """The reason why no further pick can be opened for a worker: budgets, limits on open picks, or a decision that
        waits for them; None if one can."""
        picks, limits = self._state.open_picks, self._pick_limits
        causes = (
            (self._is_held, WaitReason.ANSWERS),
            (len(picks) >= limits.experiment, WaitReason.EXPERIMENT_PICKS),
            (worker is not None and picks.of_worker(worker) >= limits.worker, WaitReason.WORKER_PICKS),
            (self._has_handed_in_all(worker), WaitReason.WORKER_BATCHES),
            (picks.of_key[key] >= limits.key, WaitReason.KEY_PICKS),
            (self._samples_left is not None and self._samples_left <= 0, WaitReason.SAMPLES),
            (self._cost_left is not None and self._cost_left <= 0, WaitReason.COST),
        )
        return next((reason for is_so, reason in causes if is_so), None)

    def _has_handed_in_all(self, worker: str | None) -> bool:
        limit = self._state.config.max_batches_per_worker
        return limit is not None and worker is not None and self._state.stored.of_workers.get(worker, 0) >= limit

    def _lacking_of(self, able: list[Arm], among: Sequence[str] | None) -> WaitReason | None:
        """The reason why none of these arms can be picked; None if one can. among: the generators that the ask
        names."""
        if any(arm.active for arm in able):
            return None
        names = [arm.name for arm in self._state.arms if arm.active and (among is None or arm.name in among)]
        return WaitReason.PROMPTS if names else WaitReason.GENERATORS

    def _next(self, able: list[Arm], request: AskRequest, stale: bool, key: str, context: AskedContext | None) -> Pick:
        """Choose and open one more pick."""
        state, stored, config = self._state, self._state.stored, self._state.config
        number = stored.rounds + 1
        choice = state.goal.pick(able, stored.told, number, context, state.goal.overspent(state))
        basis = state.goal.used(state.contenders, choice)
        generator = state.contenders[choice.index]
        cost = 0.0 if self._cost_left is None else state.costs.get(generator.name, 0.0)
        size = self._size(generator, cost)
        part = next_slice(state.experiment, generator, size)
        if part is None:
            start, seed = None, pick_seed(config.seed, number)
        else:
            start, size, seed = part.start, part.size, slice_seed(state.experiment, generator, part.start)
        # Redis may lose the newest picks and hand out their numbers again; the nonce tells the two picks apart.
        nonce = secrets.token_hex(8)
        seen = [(arm.batches, arm.pending_samples, arm.pending_batches, arm.cost) for arm in able]
        batches, pending_samples, pending_batches, costs = map(list, zip(*seen, strict=True))
        pick = Pick(
            experiment=config.name,
            instance=stored.instance,
            number=number,
            generator=generator.name,
            size=size,
            prompts=[context.text] * size if context is not None and context.text else part and part.prompts,
            prompts_start=start if part is not None and part.prompts is not None else None,
            prompt_indices=None if part is None else part.prompt_indices,
            start=start,
            seed=seed,
            positions=basis.positions,
            mixture=basis.mixture,
            batches=batches,
            pending_samples=pending_samples,
            pending_batches=pending_batches,
            excluded=[arm.name for arm in able if not arm.active],
            retired=[generator.name for generator in stored.generators if generator.state == "retired"],
            costs=costs if costs.count(None) < len(costs) else None,
            model=basis.model,
            probability=choice.probability,
            price=choice.price,
            told=stored.told,
            stale=stale,
            worker=request.worker,
            request_id=request.request_id or "",
            opened=time.time(),
            nonce=nonce,
        )
        # Samples of prompts come one for each; 0 as the largest number of rows means no limit.
        min_rows = 1 if config.prompts is None else size
        max_rows = 0 if config.prompts is None and config.allow_extra else size
        kept = b"" if context is None else AskedPrompt(context.row, choice.probability, context.text).pack()
        fields = generator.ordinal, pick.model_dump_json(), nonce, part, min_rows, max_rows, key, kept
        new = NewPick(*fields, request.worker or "")
        state.open(pick, new, pick.opened + self._lease)
        self._groups.setdefault(pick.request_id, []).append(new)
        self._samples_left = None if self._samples_left is None else self._samples_left - size
        self._cost_left = None if self._cost_left is None else self._cost_left - size * cost
        return pick

    def _size(self, generator: GeneratorState, cost: float) -> int:
        """`batch_size`, or what that has grown to, or `tries`, or less where the budgets leave less.

        Cost may exceed its budget by less than one sample.
        """
        state, config, left = self._state, self._state.config, self._cost_left
        size = config.batch_size * config.tries  # one of them is 1
        if state.experiment.grows:
            open_rows = state.open_picks.samples.total()
            size = grown_size(size, generator.samples, open_rows, state.paces.get(generator.ordinal), self._lease)
        size = size if self._samples_left is None else min(size, self._samples_left)
        return math.ceil(left / cost) if left is not None and size * cost > left else size
