"""States of experiments as they were read: with the decision that each leads to, which is latched, and levels."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.experiments.decision import GeneratorLevels, anomalous_among, arrays_with_levels, latched_text
from optimist.experiments.state import PolicyState
from optimist.records import Artefact, ExperimentState
from optimist.store import Store
from optimist.turns import aside
from optimist_client.models import Experiment


async def state_of(experiment: Experiment, stored: ExperimentState, earlier: PolicyState | None) -> PolicyState:
    """The state of an experiment as it was just read, with the decision that it leads to; a large one is made in a
    thread. earlier: as of `PolicyState`."""
    return await aside(stored.breadth, _decided, experiment, stored, earlier)


def _decided(experiment: Experiment, stored: ExperimentState, earlier: PolicyState | None) -> PolicyState:
    state = PolicyState(experiment, stored, earlier)
    _ = state.live_decision  # kept; comparing many generators for the first time takes long
    return state


async def read_levels(
    store: Store, state: PolicyState, earlier: Sequence[GeneratorLevels] = ()
) -> Sequence[GeneratorLevels]:
    """The levels of each generator of a state that was just read; none where no array has levels.

    earlier: levels of an earlier state, which are not read again where nothing of their generator has changed.
    """
    names, generators = arrays_with_levels(state), state.stored.generators
    if not names:
        return ()
    before = {id(each.generator): each for each in earlier}
    missing = [generator for generator in generators if id(generator) not in before]
    kept = await store.levels(state.config.name, [generator.ordinal for generator in missing])
    new = {
        id(generator): GeneratorLevels.of(generator, levels, names)
        for generator, levels in zip(missing, kept, strict=True)
    }
    return [before.get(id(generator)) or new[id(generator)] for generator in generators]


async def want_answers(store: Store, state: PolicyState) -> None:
    """Ask the scorers for estimates of all that was told, where a decision waits for nothing else."""
    if state.is_held and not state.awaited:
        labels = [state.config.metric.shown_label, *state.stored.limited]
        for generator in state.unscored:
            for label in labels:
                await store.want(state.config.name, Artefact("estimate", label, generator.ordinal))


async def with_decision_latched(store: Store, state: PolicyState) -> PolicyState:
    """The state, with a decision latched if the stopping rule is satisfied. The first call to latch one decides.

    It is provisional where it rests on batches on another scale. A decision from outdated estimates is not latched; it
    is made again from the newest ones.
    """
    name = state.config.name
    while state.would_stop and not state.is_decided and not state.is_held:
        anomalous = anomalous_among(state, await read_levels(store, state), of_decision=True)
        decided, stored = latched_text(state, anomalous), state.stored
        # By the digest of what it rests on: another process may have latched one, or estimates have changed meanwhile.
        # Where answers on their way matter, none may have been asked for meanwhile.
        token = stored.state_token if state.awaits_answers else ""
        await store.latch_decision(name, decided, stored.basis_digest, token=token, instance=stored.instance)
        stored = await store.state(name, stored, all_metrics=stored.has_all_metrics)
        state = await state_of(state.experiment, stored, state)
        if not state.is_scored:
            break
    return state
