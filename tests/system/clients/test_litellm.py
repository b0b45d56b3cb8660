"""LiteLLM's own router with the plugin: it learns, and goes on by itself where the service is down or slow."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optimist_client import AsyncOptimist
from tests.support.processes import Service, free_port
from tests.support.receivers import receiving

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
litellm = pytest.importorskip("litellm", reason="needs the extra litellm, which is too large for dev")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
ANSWERS = {"even": "even", "odd": "odd"}


def deployment(name: str, **params: Any) -> dict[str, Any]:
    known = {"model": "openai/stand-in", "api_key": "none", "mock_response": name}
    return {"model_name": "chat", "litellm_params": {**known, **params}, "model_info": {"id": name}}


def embed(prompt: str) -> np.ndarray:
    return np.array([1.0, 0.0] if int(prompt) % 2 else [0.0, 1.0])


def score(prompt: str, response: Any) -> float:
    return float(response.choices[0].message.content == ("odd" if int(prompt) % 2 else "even"))


async def settled(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def asked(chat: Any, number: int) -> str:
    reply = await chat.acompletion("chat", [{"role": "user", "content": f"{number}"}])
    return reply.choices[0].message.content


async def created(optimist: AsyncOptimist, name: str) -> Any:
    return await optimist.create_experiment(name, ["even", "odd"], metric="win-rate", goal="route", context=2)


async def test_prompts_are_routed_and_their_outcomes_told(service: Service, name: str):
    from optimist_client.litellm import router

    async with AsyncOptimist(service.url) as optimist:
        experiment = await created(optimist, name)
        plugin = router(experiment, embed, score, deadline=10.0)
        litellm.callbacks = [plugin]
        chat = litellm.Router(model_list=[deployment("even"), deployment("odd")])
        right = [await asked(chat, number) == ("odd" if number % 2 else "even") for number in range(200)]
        assert (plugin.routed, plugin.left) == (200, 0)

        async def told() -> bool:
            report = await experiment.report()
            return (report.samples, report.open_picks) == (200, 0)

        await settled(told)
        table = await experiment.route_table()
        assert table is not None
        assert sum(right[100:]) > 60, Counter(right[100:])


async def test_a_call_that_fails_and_one_without_a_score_leave_no_pick_open(service: Service, name: str):
    from optimist_client.litellm import router

    def judge(prompt: str, response: Any) -> float | None:
        if prompt == "2":
            raise ValueError("no verdict")
        return None

    async with AsyncOptimist(service.url) as optimist:
        experiment = await created(optimist, name)
        plugin = router(experiment, embed, judge, failed=0.0, deadline=10.0)
        litellm.callbacks = [plugin]
        chat = litellm.Router(model_list=[deployment("even"), deployment("odd")])
        assert [await asked(chat, number) in ANSWERS for number in (1, 2)] == [True, True]
        broken = litellm.Router(
            model_list=[deployment(one, mock_response=Exception("broken")) for one in ANSWERS], num_retries=0
        )
        with pytest.raises(Exception, match="broken"):
            await asked(broken, 3)

        async def none_open() -> bool:
            report = await experiment.report()
            return (report.samples, report.open_picks) == (1, 0)

        await settled(none_open)


async def test_litellm_chooses_by_itself_where_the_service_is_down_slow_or_unable(service: Service, name: str):
    from optimist_client.litellm import router

    async with AsyncOptimist(service.url) as optimist:
        experiment = await created(optimist, name)
        with receiving(answer=lambda sent: None) as hanging:
            for url in (f"http://127.0.0.1:{free_port()}", hanging.url):
                async with AsyncOptimist(url) as other:
                    lost = type(experiment)(other._transport, experiment.info)
                    plugin = router(lost, embed, score, deadline=0.05)
                    litellm.callbacks = [plugin]
                    chat = litellm.Router(model_list=[deployment("even"), deployment("odd")])
                    assert {await asked(chat, number) for number in range(20)} <= {*ANSWERS}
                    assert (plugin.routed, plugin.left) == (0, 20)
            assert 0 < len(hanging.arrived) < 20, "a deadline, and then rest"
            hanging.end()

        def broken(prompt: str) -> Any:
            raise ValueError(prompt)

        for plugin, names in (
            (router(experiment, broken, score, deadline=10.0), ANSWERS),
            (router(experiment, embed, score, deadline=10.0), ("unknown", "others")),
        ):
            litellm.callbacks = [plugin]
            chat = litellm.Router(model_list=[deployment(one) for one in names])
            assert await asked(chat, 1) in names
            assert plugin.left == 1
        assert (await experiment.report()).open_picks == 0
