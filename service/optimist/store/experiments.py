"""Experiments as a whole: created, read, controlled, decided, deleted."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Required, TypedDict, Unpack

from optimist.records import COST, ExperimentState, GeneratorStatus
from optimist.store import keys
from optimist.store.index import Index, Indexed
from optimist.store.parsing import CachedState, parse_changes, parse_state, reading
from optimist.store.scripts import Argument, Commands
from optimist_client.models import Experiment

LABELS = ("tags", "note")
"""The controls that picks do not depend on."""
CONTROLS = frozenset({"budget", "max_cost", "max_wait", "stop", "stopped", *LABELS})
"""Controls of a running experiment. With `stopped`, no picks are opened."""


class Traits(TypedDict, total=False):
    """Facts of an experiment that its creation settles, besides its config, for the scripts."""

    instance: str | None
    """Identifier among experiments of its name, never used before; random by default."""
    keep_log: bool
    """True if snapshots do not trim the log, which then holds the record of each pick, too."""
    batch_size: int | None
    """Picks begin at multiples of it in the sequence of their generator; None: samples have no indices."""
    labels: Required[Sequence[str]]
    """Labels of all metrics, the deciding metric's first."""
    limited: Sequence[str]
    """Labels of further metrics that decide because they have limits."""
    mixture_growth: float | None
    """Growth of all generators' samples after which the mixture is made anew; None with other goals."""
    model_growth: float | None
    """The same for the model of a goal that has one."""
    seedless: Set[str]
    """The generators that ignore seeds; their samples have no indices."""
    max_batches_per_worker: int | None
    """Maximum number of batches of one worker; None for no limit."""


def traits_of(experiment: Experiment) -> Traits:
    """The traits of an experiment with this config."""
    config = experiment.config
    return Traits(
        instance=experiment.instance,
        keep_log=config.keep_log,
        batch_size=config.batch_size if experiment.is_indexed else None,
        labels=list(config.metrics),
        limited=config.also_deciding,
        mixture_growth=experiment.mixture_growth,
        model_growth=experiment.model_growth,
        seedless=config.seedless,
        max_batches_per_worker=config.max_batches_per_worker,
    )


def facts_of(traits: Traits) -> dict[str, Argument]:
    """Facts that scripts read of these traits in `counts`, beside the facts of every experiment."""
    facts: dict[str, Argument | None] = {
        "batch_size": traits.get("batch_size"),
        "limited": " ".join(traits.get("limited", ())) or None,
        "mixture_growth": traits.get("mixture_growth"),
        "model_growth": traits.get("model_growth"),
        "max_batches_per_worker": traits.get("max_batches_per_worker"),
    }
    return {name: repr(fact) if isinstance(fact, float) else fact for name, fact in facts.items() if fact is not None}


class Experiments:
    """The part of `Store` about experiments as a whole."""

    _commands: Commands
    _index: Index
    _webhooks: Index

    async def reserve(self, experiment: str, max_experiments: int) -> None:
        """Reserve one of the `max_experiments` places of the namespace for an experiment that is about to be created.

        Raises Full if none is left; the limit is exact, also for simultaneous calls. A place whose experiment is not
        created within a minute may be given to another one.
        """
        await self._index.reserve(self._commands.full(experiment), max_experiments)

    async def create_experiment(
        self,
        experiment: str,
        config: str,
        generators: Sequence[str],
        growth: float,
        **traits: Unpack[Traits],
    ) -> bool:
        """Create an experiment with generators 0, 1, 2, …; False if it exists already with the same config.

        growth: estimates are due at (1 + growth) times the samples they were last due at (rules/estimates.md).
        Raises Conflict if another config has the name.
        """
        seedless = traits.get("seedless", ())
        created = await self._commands.experiment_script(
            "create_experiment",
            experiment,
            new_config=config,
            growth=repr(float(growth)),
            instance=traits.get("instance") or uuid.uuid4().hex,
            keep_log=int(traits.get("keep_log", False)),
            metrics=traits["labels"],
            facts=[{"name": name, "value": value} for name, value in facts_of(traits).items()],
            names=generators,
            seedless=[int(name in seedless) for name in generators],
        )
        # The index may be in another slot. It comes after the config: creating again repairs a crash in between.
        full = self._commands.full(experiment)
        await self._index.add(full)
        if created[0]:
            # A scorer prepares for the first estimates while the first samples are made.
            await self._commands.call("PUBLISH", keys.DUE, f"{full} 0 0")
        return bool(created[0])

    async def indexed(self) -> list[str]:
        """Ids of all experiments in one command, oldest first; some may be in creation, or deleted."""
        return await self._index.names()

    async def newest(self, after: Indexed | None = None) -> list[Indexed]:
        """Names of all experiments, newest first, each with its time, or the names after a given entry."""
        return await self._index.newest(after)

    async def in_creation(self) -> list[str]:
        """The names that are reserved, and whose experiments are not there yet."""
        await self._index.sweep()
        names = await self._index.names()
        return [name for name, instance in zip(names, await self.instances(names), strict=True) if instance is None]

    async def config(self, experiment: str) -> str | None:
        """The config that an experiment was created with, None if there is no such experiment."""
        config, indexed = await self._commands.call_many(
            [
                ("GET", self._commands.key(experiment, "config")),
                ("ZSCORE", keys.EXPERIMENTS, self._commands.full(experiment)),
            ]
        )
        if config is None:
            return None
        if indexed is None:
            await self._index.add(self._commands.full(experiment))
        return config.decode()

    async def delete_experiment(self, experiment: str) -> bool:
        """Remove every trace of an experiment; False if there was none."""
        full = self._commands.full(experiment)
        named = [(index, await index.since(full)) for index in (self._index, self._webhooks)]
        existed = await self._commands.experiment_script("delete_experiment", experiment)
        for index, since in named:
            await index.remove(full, since)
        return bool(existed[0])

    async def state(
        self,
        experiment: str,
        cached: ExperimentState | None = None,
        *,
        told: bool = False,
        all_metrics: bool = False,
        estimates: bool = True,
    ) -> ExperimentState:
        """Free the leases that ran out, then read everything that decisions are made from, all of one moment.

        cached: a state read before. Only its changes are read where they concern single generators; else its open
        picks, estimates, mixture and model are reused. told: read `GeneratorState.told`, too. all_metrics: read the
        units of all metrics, else of the deciding metric. estimates: False reads only their positions.
        """
        before = None
        if cached is not None:
            # A state without a token is of no instant.
            is_like_it = cached.state_token and estimates and not told and all_metrics == cached.has_all_metrics
            before = CachedState(cached, cached.instant if is_like_it and cached.has_estimates else None)
        sought = reading(before)
        answer, intervals = await self._commands.experiment_script(
            "state",
            experiment,
            wants_told=int(told),
            wants_all=int(all_metrics),
            wants_estimates=int(estimates),
            since=sought.since,
            since_token=sought.since_token,
            since_rounds=sought.since_rounds,
            renewed=sought.renewed,
            held=sought.held,
        )
        if cached is None or before is None or before.instant is None:
            return await parse_state(answer, cached, intervals if told else None)
        changed = parse_changes(answer, before)
        forgotten = replace(cached, state_token="")  # nosec B106: no password
        return changed or await self.state(experiment, forgotten, all_metrics=all_metrics)

    async def metric_labels(self, experiment: str) -> list[str]:
        """Labels of all metrics, the deciding metric's first; empty for an unknown experiment."""
        labels = await self._commands.call("LRANGE", self._commands.key(experiment, "labels"), 0, -1)
        return [label.decode() for label in labels]

    async def usual_sizes(self, experiment: str, generators: int) -> dict[str, str]:
        """The usual sizes, and the sizes of the first `generators` generators, as opaque texts of checking.lua."""
        names = ["usual", *map(str, range(generators))]
        sizes = await self._commands.call("HMGET", self._commands.key(experiment, "checks"), *names)
        return {name: text.decode() for name, text in zip(names, sizes, strict=True) if text is not None}

    async def add_generator(
        self,
        experiment: str,
        name: str,
        *,
        limit: int = 1000,
        cost: float | None = None,
        is_seedless: bool = False,
    ) -> int:
        """Add a generator, with its cost per sample, and True if it ignores seeds, and return its ordinal.

        An existing generator keeps its ordinal and cost. Raises Conflict for the name of a retired generator, Full if
        there are `limit` already.
        """
        control, value = ("", "") if cost is None else (f"{COST}{name}", repr(cost))
        ordinal = await self._commands.experiment_script(
            "add_generator",
            experiment,
            name=name,
            limit=limit,
            control=control,
            value=value,
            seedless=int(is_seedless),
        )
        return ordinal[0]

    async def set_state(self, experiment: str, generator: int, state: GeneratorStatus) -> None:
        """Pause, resume or retire a generator. Picks are opened for active generators; open picks remain and count.

        Raises Conflict if no active generator would remain, or the generator is retired; NotFound for an unknown one.
        """
        await self._commands.experiment_script("set_state", experiment, generator=generator, state=state)

    async def control(self, experiment: str, fields: Mapping[str, str]) -> None:
        """Set `controls` of a state; an empty value removes one. Raises ValueError outside `CONTROLS`."""
        if not {name for name in fields if not name.startswith(COST)} <= CONTROLS:
            raise ValueError(f"controls are {', '.join(sorted(CONTROLS))}")
        await self._commands.experiment_script(
            "control", experiment, fields=[{"name": name, "value": value} for name, value in fields.items()]
        )

    async def labels(self, experiments: Sequence[str]) -> list[dict[str, str]]:
        """The controls in `LABELS` of each experiment; empty for an unknown experiment."""
        commands = [("HMGET", self._commands.key(name, "controls"), *LABELS) for name in experiments]
        stored = await self._commands.call_many(commands)
        return [
            {name: value.decode() for name, value in zip(LABELS, values, strict=True) if value is not None}
            for values in stored
        ]

    async def instances(self, experiments: Sequence[str]) -> list[str | None]:
        """The instance of each experiment, its identity for its name; None for an unknown experiment."""
        stored = await self._commands.call_many(
            [("HGET", self._commands.key(name, "counts"), "instance") for name in experiments]
        )
        return [None if instance is None else instance.decode() for instance in stored]

    async def fingerprints(self, experiments: Sequence[str]) -> list[bytes]:
        """For each experiment a text that differs after every change; b"" for an unknown experiment.

        The end of a lease does not change the text.
        """
        fields = ("instance", "state_token", "newest_artefact", "noted")
        keys_of = [[self._commands.key(name, part) for part in ("counts", "quarantined")] for name in experiments]
        answers = await self._commands.call_many(
            [
                command
                for counts, quarantined in keys_of
                for command in (("HMGET", counts, *fields), ("HLEN", quarantined))
            ]
        )
        return [repr(facts).encode() if facts[0][0] else b"" for facts in zip(answers[::2], answers[1::2], strict=True)]

    async def latch_decision(
        self, experiment: str, payload: str, basis: str = "", *, token: str = "", instance: str | None = None
    ) -> bool:
        """Decide an experiment, after which no picks are opened.

        basis: `ExperimentState.basis_digest` of the state that it was decided by; "": whatever it is. token: its
        `state_token`, where nothing at all may have changed since; "": that does not matter. False if another
        decision was made first, or if there are other estimates, or another mixture, by now.
        """
        latched = await self._commands.experiment_script(
            "latch_decision", experiment, payload=payload, basis_digest=basis, token=token, instance=instance
        )
        return bool(latched[0])

    async def reopen(self, experiment: str, decision: str) -> bool:
        """Drop the decision that a state showed; False if there is another one now. Idempotent."""
        reopened = await self._commands.experiment_script("reopen", experiment, dropped=decision)
        return bool(reopened[0])
