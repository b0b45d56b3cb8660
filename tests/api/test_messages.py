"""Messages to webhooks: what is told, once each, by whoever is alive, and what slow or dead receivers cost others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from optimist.api.app import create_app
from optimist.api.app_state import AppState
from optimist.api.messages import messenger as messenger_module
from optimist.api.messages.messenger import OWN_PLACES, Messenger
from optimist.api.messages.outgoing import Webhook
from optimist.api.middleware.access import KeyRing
from optimist.api.middleware.keys import make_key
from optimist.api.redis_health import RedisHealth
from optimist.experiments import events
from optimist.records import Contents, Full
from optimist.settings import Settings
from optimist.store import EmbeddedRedis, Store
from optimist_client.models import AnomalousBatches, DecisionInfo
from tests.support.configs import config_of, experiment_of
from tests.support.receivers import SECRET, Receiver, Sent, receiving

LOCAL = {"webhook_networks": "127.0.0.0/8"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch):
    """Looks and attempts follow each other without long pauses."""
    for name, value in {"PAUSES": (0.05, 0.05), "CLAIM": 0.5}.items():
        monkeypatch.setattr(messenger_module, name, value)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def of_service(receiver: Receiver) -> Settings:
    return Settings.model_validate({"webhook": f"{receiver.url}/all", "webhook_secret": SECRET, **LOCAL})


def messenger_of(store: Store, settings: Settings) -> Messenger:
    context = AppState(store, settings, RedisHealth(store, settings))
    return Messenger(context, KeyRing(store), settings, period=0.02, rest=0.0, lease=1)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def looks(messenger: Messenger, times: int = 3) -> None:
    """Wait until it has looked so many times more."""
    done = 0
    look = messenger._look

    async def counted() -> None:
        nonlocal done
        await look()
        done += 1

    messenger._look = counted
    await until(lambda: done >= times)
    messenger._look = look


async def make(store: Store, name: str, *, rows: int = 0, created: float | None = None, **config: Any) -> None:
    """An experiment with so many rows of its one generator, and a budget of 5."""
    config = config_of(name=name, generators=["a"], metric="is", dimension=3, **{"budget": 5, **config})
    made = experiment_of(config, created=time.time() if created is None else created, instance=f"of-{name}")
    text = made.model_dump_json()
    await store.create_experiment(name, text, ["a"], 0.0, instance=made.instance, labels=["is"])
    if rows:
        await store.append(name, 0, "key", Contents("digest", rows, b"body"))


async def decide(store: Store, name: str, *anomalies: AnomalousBatches) -> None:
    decision = DecisionInfo(best="a", confidence=0.96, decided=True, reason="sure", anomalies=anomalies)
    assert await store.latch_decision(name, json.dumps({**decision.model_dump(mode="json"), "samples": [3]}))


def own(receiver: Receiver, **fields: Any) -> str:
    return Webhook.model_validate(
        {"url": f"{receiver.url}/own", "format": "json", "secret": SECRET, **fields}
    ).model_dump_json()


async def test_each_kind_of_event_is_told_once_and_no_other(
    store: Store, receiver: Receiver, of_service: Settings, monkeypatch: pytest.MonkeyPatch
):
    here = store.in_namespace("default")
    doubtful = AnomalousBatches(generator="a", finding="large", positions=(1,), count=1, whole=False)
    await make(here, "runs", rows=3)
    await make(here, "stopped", rows=5)
    await here.control("stopped", {"stopped": "1"})
    await make(here, "decided", rows=3)
    await decide(here, "decided")
    await make(here, "doubtful", rows=3)
    await decide(here, "doubtful", doubtful)
    await make(store.in_namespace("vision"), "spent", rows=5)
    messenger = messenger_of(store, of_service)
    async with messenger.running():
        await until(lambda: len(receiver.answered()) == 3)
        await looks(messenger)
        told = {(one.json["data"]["experiment"], one.json["type"]): one.json["data"] for one in receiver.arrived}
        assert {*told} == {
            ("decided", "experiment.decided"),
            ("doubtful", "experiment.provisional"),
            ("spent", "experiment.out_of_budget"),
        }
        assert told["decided", "experiment.decided"]["best"] == "a"
        assert told["spent", "experiment.out_of_budget"]["namespace"] == "vision"
        # The batch is accepted: the same decision is a decision.
        await here.accept_batch("doubtful", generator=0, position=1)
        await until(lambda: len(receiver.answered()) == 4)
        assert receiver.arrived[-1].json["type"] == "experiment.decided"
        # Nothing happens to the one that runs.
        monkeypatch.setattr(events, "IDLE", 0.05)
        await here.control("runs", {"note": '"changed"'})
        await until(lambda: len(receiver.answered()) == 5)
        await looks(messenger)
    assert receiver.arrived[-1].json["data"]["experiment"] == "runs"
    assert receiver.arrived[-1].json["type"] == "experiment.idle"
    assert len({one.id for one in receiver.arrived}) == len(receiver.arrived) == 5


async def test_what_happened_a_day_before_is_not_told(store: Store, receiver: Receiver, of_service: Settings):
    long_ago = time.time() - events.IDLE - messenger_module.TOLD - 1.0
    await make(store.in_namespace("default"), "forgotten", created=long_ago)
    await make(store.in_namespace("default"), "idle", created=long_ago + 10.0)
    messenger = messenger_of(store, of_service)
    async with messenger.running():
        await until(lambda: receiver.answered())
        await looks(messenger)
    assert [one.json["data"]["experiment"] for one in receiver.arrived] == ["idle"]


async def test_a_message_is_sent_again_under_its_id_and_given_up_at_last(
    store: Store, of_service: Settings, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    here = store.in_namespace("default")
    await make(here, "x", rows=5)
    receiver.answer = lambda sent: 503
    messenger = messenger_of(store, of_service)
    async with messenger.running():
        await until(lambda: len(receiver.arrived) == 3)
        await looks(messenger)
        kept = (await here.messages("x"))["service:out of budget"]
        assert (kept.outcome, kept.attempts, kept.note) == ("failed", 3, "answered 503")
        # The same with another budget is another event.
        receiver.answer = lambda sent: 503 if len(receiver.arrived) < 5 else 204
        await here.control("x", {"budget": "4"})
        await until(lambda: receiver.answered())
        await looks(messenger)
    first, second = {one.id for one in receiver.arrived[:3]}, {one.id for one in receiver.arrived[3:]}
    assert (len(first), len(second), len(first | second)) == (1, 1, 2)
    assert (await here.messages("x"))["service:out of budget"].outcome == "sent"
    assert "answered 503" in caplog.text
    assert "/all" not in caplog.text


async def test_many_processes_send_each_message_once(
    store: Store, receiver: Receiver, of_service: Settings, monkeypatch: pytest.MonkeyPatch
):
    async def everybody(self: Store, who: str, seconds: int) -> bool:
        return True

    monkeypatch.setattr(Store, "lead", everybody)
    monkeypatch.setattr(messenger_module, "CLAIM", 60.0)  # no claim runs out, however busy the machine is
    for number in range(20):
        await make(store.in_namespace("default"), f"x{number}", rows=5)
    async with AsyncExitStack() as stack:
        messengers = [messenger_of(store, of_service) for _ in range(4)]
        for messenger in messengers:
            await stack.enter_async_context(messenger.running())
        await until(lambda: len(receiver.answered()) == 20)
        for messenger in messengers:
            await looks(messenger)
    assert len(receiver.arrived) == len({one.id for one in receiver.arrived}) == 20


async def test_one_of_all_processes_looks_and_another_one_after_it(store: Store):
    assert [await store.lead(who, 1) for who in ("a", "b", "a")] == [True, False, True]
    async with asyncio.timeout(10):
        while not await store.lead("b", 1):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert not await store.lead("a", 1)


async def test_what_a_process_that_died_was_sending_is_sent_by_another_one(
    store: Store, receiver: Receiver, of_service: Settings
):
    await make(store.in_namespace("default"), "x", rows=5)
    receiver.answer = lambda sent: None
    dying = messenger_of(store, of_service)
    task = asyncio.create_task(dying._run())
    await until(lambda: receiver.arrived)
    task.cancel()
    for sending in [*dying._sending.values()]:
        sending.cancel()
    receiver.answer = lambda sent: 204
    messenger = messenger_of(store, of_service)
    async with messenger.running():
        await until(lambda: receiver.answered())
        await looks(messenger)
    assert [one.status for one in receiver.arrived] == [None, 204]
    assert len({one.id for one in receiver.arrived}) == 1


async def test_a_process_that_ends_in_order_finishes_what_it_sends(
    store: Store, receiver: Receiver, of_service: Settings
):
    await make(store.in_namespace("default"), "x", rows=5)

    def slowly(sent: Sent) -> int:
        time.sleep(0.3)
        return 204

    receiver.answer = slowly
    async with messenger_of(store, of_service).running():
        await until(lambda: receiver.arrived)
    assert (await store.messages("x"))["service:out of budget"].outcome == "sent"


async def test_receivers_that_hang_keep_no_other_namespace_waiting(store: Store, receiver: Receiver):
    settings = Settings.model_validate(LOCAL)
    with receiving(answer=lambda sent: None) as hanging:
        for number in range(30):
            await make(store.in_namespace("slow"), f"x{number}", rows=5)
            instance, record = f"of-x{number}", own(hanging)
            await store.in_namespace("slow").put_webhook(f"x{number}", instance, record, OWN_PLACES, 100)
        async with messenger_of(store, settings).running():
            await until(lambda: hanging.arrived)
            await make(store.in_namespace("quick"), "x", rows=5)
            await store.in_namespace("quick").put_webhook("x", "of-x", own(receiver), OWN_PLACES, 100)
            begun = time.monotonic()
            await until(lambda: receiver.answered())
            assert time.monotonic() - begun < messenger_module.TIMEOUT
            assert len(hanging.arrived) == 1, "one at a time of a namespace"
            hanging.end()


async def test_a_webhook_of_an_experiment_ends_with_the_key_that_set_it(store: Store, receiver: Receiver):
    here, settings = store.in_namespace("default"), Settings.model_validate(LOCAL)
    id_, _, record = make_key("admin", "default")
    await store.access_keys.put(id_, record.model_dump_json())
    for name, maker in (("lives", id_), ("dead", "0" * 12)):
        await make(here, name, rows=5)
        await here.put_webhook(name, f"of-{name}", own(receiver, maker=maker), OWN_PLACES, 100)
    messenger = messenger_of(store, settings)
    async with messenger.running():
        await until(lambda: receiver.answered())
        await looks(messenger)
    assert [one.json["data"]["experiment"] for one in receiver.arrived] == ["lives"]


async def test_another_webhook_is_told_again_and_the_number_is_limited(store: Store, receiver: Receiver):
    here, settings = store.in_namespace("default"), Settings.model_validate(LOCAL)
    for name in ("x", "y", "z"):
        await make(here, name, rows=5 * (name == "x"))
    for name in ("x", "x", "y"):
        await here.put_webhook(name, f"of-{name}", own(receiver), OWN_PLACES, 2)
    with pytest.raises(Full):
        await here.put_webhook("z", "of-z", own(receiver), OWN_PLACES, 2)
    messenger = messenger_of(store, settings)
    async with messenger.running():
        await until(lambda: len(receiver.answered()) == 1)
        await here.put_webhook("x", "of-x", own(receiver, url=f"{receiver.url}/new"), OWN_PLACES, 2)
        messenger._seen.clear()
        await until(lambda: len(receiver.answered()) == 2)
        assert await here.remove_webhook("x", OWN_PLACES)
        await here.put_webhook("z", "of-z", own(receiver), OWN_PLACES, 2)
        await here.control("x", {"budget": "4"})
        await looks(messenger)
    assert [one.path for one in receiver.arrived] == ["/own", "/new"]


@asynccontextmanager
async def api(server: EmbeddedRedis, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings.model_validate({"redis_url": server.url, **settings}), server.url)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            yield http


@pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")
async def test_a_webhook_is_set_shown_without_its_secrets_and_removed(
    store: Store, server: EmbeddedRedis, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    path, hidden = "/v1/experiments/x/webhook", f"{receiver.url}/T0/B0/hidden"
    await make(store.in_namespace("default"), "x", rows=5)
    async with api(server, **LOCAL) as http:
        assert [(await http.request(method, path)).status_code for method in ("GET", "DELETE")] == [404, 404]
        made = (await http.put(path, json={"url": hidden})).json()
        assert (made["format"], made["host"]) == ("json", receiver.url.removeprefix("http://"))
        assert made["secret"].startswith("whsec_")
        await until(lambda: receiver.answered())
        shown = (await http.get(path)).json()
        assert (shown["messages"][0]["event"], "secret" in shown) == ("out of budget", False)
        given = (await http.put(path, json={"url": hidden, "secret": SECRET})).json()
        assert "secret" not in given
        refused = [
            *(
                "ftp://a.example/x",
                "https://user:word@a.example/hidden",
                "https:///hidden",
                "http://a.example:99999/hidden",
            ),
            *("http://a.example/hid den", "http://a.example/#hidden", f"https://a.example/{'h' * 3000}", "hidden"),
        ]
        for url in refused:
            answer = await http.put(path, json={"url": url})
            assert answer.status_code == 422, url
            assert "hidden" not in answer.text
        answer = await http.put(path, json={"url": hidden, "secret": "short"})
        assert (answer.status_code, "short" in answer.text) == (422, False)
        said = [
            (await http.get(one)).text
            for one in (path, "/v1/experiments/x", "/v1/experiments/x/report", "/v1/experiments")
        ]
        assert not any("hidden" in one or SECRET[6:] in one for one in said)
        assert (await http.delete(path)).status_code == 204
    assert "hidden" not in caplog.text


async def test_a_deleted_experiment_takes_its_webhook_with_it(store: Store, receiver: Receiver):
    here = store.in_namespace("default")
    await make(here, "x")
    await here.put_webhook("x", "of-x", own(receiver), OWN_PLACES, 1)
    await here.delete_experiment("x")
    await make(here, "x", rows=5)
    messenger = messenger_of(store, Settings.model_validate(LOCAL))
    async with messenger.running():
        await looks(messenger)
    assert receiver.arrived == []
    assert await here.webhook("x") is None
    with contextlib.suppress(Full):
        await here.put_webhook("x", "of-x", own(receiver), OWN_PLACES, 1)
    assert await here.webhook("x") is not None
