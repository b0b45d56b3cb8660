"""One experiment as workers see it: its picks, its generators, and its report."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from optimist_client import models
from optimist_client.operations import Awaiting, Blocking, iteration, operation
from optimist_client.pick import AsyncPick, Pick, PickOperations
from optimist_client.progress import shown
from optimist_client.run import Allowance, Makers, Run
from optimist_client.transport import Transport

PickT = TypeVar("PickT", Pick, AsyncPick)


class ExperimentOperations(Generic[PickT]):
    """What `Experiment` and `AsyncExperiment` do."""

    _pick: type[PickT]

    def __init__(self, transport: Transport, info: models.Experiment) -> None:
        self._transport = transport
        self.info = info
        self.name = info.config.name

    @operation
    async def run(
        self,
        generators: Mapping[str, Callable[..., Any]],
        embed: Callable[[Any], Any] | None = None,
        *,
        embed_prompts: Callable[[list[str]], Any] | None = None,
        max_samples: int | None = None,
        max_cost: float | None = None,
        workers: int = 1,
        progress: bool | None = None,
    ) -> models.Report:
        """Sample and tell until the experiment has ended, or `max_samples` or `max_cost` is used up; answer the report.

        generators: by name, functions `(size, seed) → samples`, or `(size, seed, prompts) → samples` where the
            experiment holds prompts, a list of `size` texts. Same seed, same samples, if you want it repeatable. Names
            may be some of the experiment's; only those are picked here.
        embed: function of what a generator returned. It returns what `tell` takes: rows (n, d) of features or class
            probabilities, or a mapping of named arrays, perhaps with "ids". None: generators return that themselves.
            Where the experiment names its embedding, it is an embedder of that `name` (`optimist_client.embedders`).
        embed_prompts: function of the list of prompts that returns their embeddings (n, d_t), for scores of pairs.
        max_samples, max_cost: how many samples are made here at most, and what they may cost, by the costs that the
            generators have when it begins.
        workers: loops side by side. More than one call your functions from as many threads at once; with
            `AsyncExperiment` they are tasks, and functions that are not asynchronous run in threads.
        progress: True or False; None shows it in notebooks and terminals only.

        Ctrl-C gives every open pick back, then raises KeyboardInterrupt; running again goes on from there. With several
        threads it waits for what they are in the middle of, unless Ctrl-C is pressed again. A function that raises ends
        the run with `GeneratorError`, which names the generator; its pick is given back with the reason, other workers
        first tell what they are making. Raises ValueError for names that the experiment does not have, for `max_cost`
        where a generator has no cost, and for an embedder of another name than the experiment's.

        Tell and ask travel together: one round trip a round.
        """
        if workers < 1:
            raise ValueError(f"workers: expected at least 1, got {workers}")
        costs = {row.generator: row.cost_per_sample for row in (await ExperimentOperations.report(self)).standings}
        if unknown := [name for name in generators if name not in costs] or ["none"] * (not generators):
            raise ValueError(f"generators: expected some of {', '.join(costs)}; got {', '.join(unknown)}")
        allowance = Allowance(max_samples, max_cost, {name: costs[name] for name in generators})
        embedding = self.info.config.embedding
        if embedding is not None and getattr(embed, "name", None) != embedding:
            raise ValueError(
                f"embed: the experiment takes embedding {embedding!r}; got one of name {getattr(embed, 'name', None)!r}"
            )
        makers = Makers(self._transport, generators, embed, embed_prompts, embedding)
        with shown(progress, self.name, max_samples or self.info.config.budget) as display:

            async def draw(worker: str, patience: float | None) -> tuple[models.AskReply, PickOperations | None]:
                request = models.AskRequest(worker=worker, request_id=_unique(), generators=list(generators))
                reply = await self._reply(request, patience)
                return reply, self._drawn(reply.picks[0], request) if reply.picks else None

            await Run(self._transport, makers, draw, display, allowance).work(workers)
        return await self._scored_report()

    async def _scored_report(self) -> models.Report:
        """The report once everything told is scored, or as it is when that takes longer than an ask would wait."""
        waited, pause = 0.0, 0.05
        while True:
            report = await ExperimentOperations.report(self)
            if report.scored or waited >= self.info.config.max_wait:
                return report
            await self._transport.sleep(pause)
            waited += pause

    @operation
    async def ask(self, *, worker: str | None = None, generators: Sequence[str] | None = None) -> PickT | None:
        """The next pick, or None when the experiment has ended.

        With a `worker` name (unique per loop), a pick this worker still has open is returned again. `generators` are
        those that it can sample, if not all.
        """
        names = None if generators is None else list(generators)
        request = models.AskRequest(worker=worker, request_id=_unique(), generators=names)
        while True:
            reply = await self._reply(request)
            if reply.picks:
                return self._drawn(reply.picks[0], request)
            if reply.retry_after is None:
                return None
            await self._transport.sleep(reply.retry_after)

    @iteration
    async def picks(self, max_samples: int | None = None, *, worker: str | None = None) -> AsyncGenerator[PickT, None]:
        """Picks until the experiment has ended, or until `max_samples` samples were picked here.

        Each pick must be told (or given up) before the next is drawn; one that is neither, as when the loop breaks or
        raises, is given up. Tell and ask travel together: one round trip a round.
        """
        worker = worker or f"loop-{_unique()}"
        drawn = 0
        pick: PickT | None = await ExperimentOperations.ask(self, worker=worker)
        try:
            while pick is not None:
                drawn += pick.size
                if max_samples is not None and drawn > max_samples:
                    return
                pick._asks_on = max_samples is None or drawn < max_samples
                yield pick
                await pick._leave("not told before the next pick was drawn")
                asks_on = pick._asks_on and not pick._ended
                pick = pick.next or (await ExperimentOperations.ask(self, worker=worker) if asks_on else None)
        finally:
            for left in (pick, pick and pick.next):
                if left is not None:
                    await left._leave("the loop ended before the pick was told")

    @operation
    async def stop(self) -> models.Report:
        """Open no more picks, until `resume`."""
        return await self._change("", state="stopped")

    @operation
    async def resume(
        self, *, budget: int | None = None, max_cost: float | None = None, stop: bool | None = None
    ) -> models.Report:
        """Go on after `stop`, a decision or a spent budget, with a larger `budget` in samples, or `max_cost`, if given.

        After a decision it runs on without deciding again, unless `stop` is True. Raises `Fix` for `max_cost` where a
        generator has no cost.
        """
        return await self._change("", state="running", budget=budget, max_cost=max_cost, stop=stop)

    @operation
    async def add_generator(self, generator: str, cost: float | None = None) -> models.Report:
        """Add a generator, with what a sample of it costs, if that is known; one that is there stays as it is.

        Raises `Fix` for one without cost where the experiment has `max_cost`.
        """
        wanted = {"name": generator} | ({} if cost is None else {"cost": cost})
        answer = await self._transport.call("POST", f"/v1/experiments/{self.name}/generators", json=wanted)
        return models.Report.model_validate(answer)

    @operation
    async def set_cost(self, generator: str, cost: float) -> models.Report:
        """Set what a sample of a generator costs: of every one, those already told included."""
        return await self._change(f"/generators/{quote(generator, safe='')}", cost=cost)

    @operation
    async def set_state(self, generator: str, state: models.GeneratorState) -> models.Report:
        """Pause a generator, make it active again, or retire it for good. Raises `Conflict` for the last active one."""
        return await self._change(f"/generators/{quote(generator, safe='')}", state=state)

    @operation
    async def modes(self, generator: str, count: int = 5, samples: int = 8) -> models.Modes:
        """The generator's `count` largest modes, each with the `samples` that show it most, and groups of prompts.

        Raises `Fix` for metrics without a kernel, `Retry` when nothing was scored in time.
        """
        params = {"count": count, "samples": samples}
        path = f"/v1/experiments/{self.name}/generators/{quote(generator, safe='')}/modes"
        return models.Modes.model_validate(await self._transport.call("GET", path, params=params))

    @operation
    async def export(self, path: str | Path) -> None:
        """Write the experiment to one file, for `import_experiment`; a file that is there gives way.

        It goes on meanwhile. Picks that are open are not in the file. Raises `Stop` where part of it is damaged.
        """
        # Next to it, so that nobody finds half a file, and what is there stays until the new one is whole.
        part = Path(path).with_name(f".{Path(path).name}-{_unique()}")
        try:
            await self._transport.download(f"/v1/experiments/{self.name}/export", part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @operation
    async def report(self) -> models.Report:
        """The standings, regret, pick ratio and decision as of now."""
        return models.Report.model_validate(await self._transport.call("GET", f"/v1/experiments/{self.name}/report"))

    async def _reply(self, request: models.AskRequest, patience: float | None = None) -> models.AskReply:
        asked = request.model_dump(exclude_none=True)
        answer = await self._transport.call("POST", f"/v1/experiments/{self.name}/picks", json=asked, patience=patience)
        return models.AskReply.model_validate(answer)

    def _drawn(self, info: models.Pick, request: models.AskRequest) -> PickT:
        return self._pick(self._transport, info, self.info.config.kind.first_array(), request.generators)

    async def _change(self, path: str, **fields: Any) -> models.Report:
        given = {name: value for name, value in fields.items() if value is not None}
        answer = await self._transport.call("PATCH", f"/v1/experiments/{self.name}{path}", json=given)
        return models.Report.model_validate(answer)


class Experiment(ExperimentOperations[Pick], Blocking):
    """One experiment on the service. `info` holds its config."""

    _pick = Pick


class AsyncExperiment(ExperimentOperations[AsyncPick], Awaiting):
    """`Experiment` for asyncio: the same methods, to be awaited; `async for` goes through `picks`."""

    _pick = AsyncPick


def _unique() -> str:
    return uuid.uuid4().hex
