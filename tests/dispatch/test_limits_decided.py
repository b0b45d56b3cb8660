"""The goal "cheapest" in a service: every process decides by all metrics with limits, once open picks are in."""

from __future__ import annotations

from optimist.api.app_state import AppState
from optimist.api.redis_health import RedisHealth
from optimist.dispatch.dispatcher import Dispatcher
from optimist.estimates.estimate import Estimate
from optimist.experiments.assignment import PickLimits
from optimist.records import Contents, PickBatch, codec
from optimist.settings import Settings
from optimist.store import Store
from optimist_client.metrics import Mean
from optimist_client.models import AskReply, AskRequest, Pick, Report
from tests.support.configs import config_of, experiment_of
from tests.support.exchanges import claimed
from tests.support.made import create

MOST = PickLimits(1000, 1000, 1000)


class Limited:
    """The experiment "x" about a score and a latency, served by two processes."""

    def __init__(self, store: Store) -> None:
        latency = Mean(label="latency", reads="latency", higher_is_better=False)
        given = {"goal": "cheapest", "good_enough": 0.1, "limits": {"latency": "< 1"}, "costs": {"a": 1.0, "b": 4.0}}
        wanted = config_of(
            name="x", generators=["a", "b"], metric="mean", watch=[latency], batch_size=20, max_wait=0.0, **given
        )
        self.store = store
        self.experiment = experiment_of(wanted)
        self.processes = [Dispatcher(store, self.experiment, MOST) for _ in range(2)]
        self.context = AppState(store, Settings(), RedisHealth(store, Settings()))

    async def begin(self) -> None:
        """Two batches of each generator are told, and two more picks are open."""
        await create(self.store, self.experiment, self.experiment.model_dump_json())
        picks = [(await self.ask(f"worker {number}")).picks[0] for number in range(6)]
        for pick in picks[:4]:
            await self.tell(pick)

    async def ask(self, worker: str = "fast", process: int = 0) -> AskReply:
        self.processes[process].wake()
        return await self.processes[process].ask(AskRequest(worker=worker))

    async def tell(self, pick: Pick) -> None:
        await self.processes[0].tell(PickBatch(pick.number, pick.nonce, Contents(f"digest {pick.number}", 20, b"body")))

    async def score(self, label: str, *values: float) -> None:
        """Publish estimates of all that was told by a metric, with these values."""
        for generator in (await self.store.state("x")).generators:
            value, lower = values[generator.ordinal], label == "latency"
            known = {"standard_error": 0.001, "stopping_error": 0.001, "value_skewness": 0.0, "lower_is_better": lower}
            text = codec.encode(Estimate(value, value, generator.samples, value, value, value, **known))
            token = await claimed(self.store, "x", generator.ordinal, "scorer", 60, label)
            await self.store.put_estimate("x", generator.ordinal, generator.seq, text, token, label=label)

    async def open_picks(self) -> list[Pick]:
        return [Pick.model_validate_json(one.record) for one in (await self.store.state("x")).open_picks]

    async def report(self) -> Report:
        self.context.polls.changed("x")
        return Report.model_validate_json((await self.context.polls.report("x", 0)).text)


async def test_a_watched_metric_with_a_limit_decides_and_all_processes_say_the_same(store: Store):
    limited = Limited(store)
    await limited.begin()
    await limited.score("mean", 1.0, 1.0)
    before = (await store.state("x")).version
    for process in (0, 1):
        assert not (await limited.ask(process=process)).decision.decided, "nothing is known of the latency"
    await limited.score("latency", 2.0, 0.5)
    assert (await store.state("x")).version > before, "asks see it"
    held = await limited.ask("another")
    assert (held.picks, held.decision.decided) == ([], False)
    assert sum(held.decision.awaited.values()) >= 2, "picks on their way may change it"
    for pick in await limited.open_picks():
        await limited.tell(pick)
    assert not (await limited.ask(process=1)).ended, "estimates of all that was told are not there yet"
    await limited.score("mean", 1.0, 1.0)
    assert not (await limited.ask(process=1)).ended, "nor those by the other metric"
    await limited.score("latency", 2.0, 0.5)
    replies = [await limited.ask(process=process) for process in (0, 1)]
    assert [(reply.ended, reply.decision.best) for reply in replies] == [(True, "b")] * 2
    report = await limited.report()
    assert (report.state, report.decision.best) == ("decided", "b")
    assert report.answer.startswith("b is the cheapest that is good enough, with 9")
    assert "a is not: Mean (latency) 2.0000 (" in report.why
    verdicts = {(one.generator, one.label): one.verdict for one in report.decision.limits}
    assert verdicts == {("a", ""): "met", ("b", ""): "met", ("a", "latency"): "not met", ("b", "latency"): "met"}
    assert replies[0].decision == replies[1].decision
