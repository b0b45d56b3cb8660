"""LiteLLM's router asks an experiment which deployment gets a prompt, and tells it what became of the answer."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optimist_client.errors import OptimistError
from optimist_client.experiment import AsyncExperiment
from optimist_client.installed import need
from optimist_client.pick import AsyncPick

NOTE = "optimist_pick"
"""The field of a request's metadata that has the pick it was routed by."""
_log = logging.getLogger(__name__)


class RouterPlugin:
    """The methods of a plugin that LiteLLM calls. An answer that has no score gives its pick up."""

    def __init__(
        self,
        experiment: AsyncExperiment,
        embed: Callable[[str], Any],
        score: Callable[[str, Any], Any],
        *,
        model: str | None,
        failed: float | None,
        deadline: float,
    ) -> None:
        self.experiment = experiment
        self._embed = embed
        self._score = score
        self._model = model
        self._failed = failed
        self._deadline = deadline
        self._open: dict[str, tuple[AsyncPick, str]] = {}
        self._resting_until = 0.0
        self.routed = self.left = 0
        """Requests that were routed by a pick, and that were left to LiteLLM."""

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[Any],
        messages: Sequence[Mapping[str, Any]] | None,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[Any]:
        """The deployment of the pick alone; all of them where there is no pick in time."""
        if self._model not in (None, model) or request_kwargs is None or not healthy_deployments:
            return healthy_deployments
        request_kwargs.setdefault("metadata", {}).pop(NOTE, None)  # of an attempt before
        by_id = {deployment["model_info"]["id"]: deployment for deployment in healthy_deployments}
        prompt = prompt_of(messages)
        pick = await self._pick(prompt, [name for name in by_id if name in self.experiment.info.config.generators])
        if pick is None:
            self.left += 1
            return healthy_deployments
        self.routed += 1
        number = request_kwargs["metadata"][NOTE] = f"{pick.info.instance} {pick.number}"
        self._open[number] = pick, prompt
        if len(self._open) > 10_000:  # the oldest one is forgotten, and its lease ends
            del self._open[next(iter(self._open))]
        return [by_id[pick.generator]]

    async def async_log_success_event(
        self, kwargs: Mapping[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Tell the score of an answer."""
        if (taken := self._taken(kwargs)) is None:
            return
        pick, prompt = taken
        score, reason = None, "another deployment answered"
        if _deployment(kwargs) == pick.generator:
            try:
                score, reason = await _awaited(self._score(prompt, response_obj)), "its answer has no score"
            except Exception as error:  # whatever a judge raises, the request has been answered
                reason = f"scoring raised {type(error).__name__}: {error}"
                _log.warning("an answer of %s has no score: %s", pick.generator, reason)
        await _settle(pick, score, reason)

    async def async_log_failure_event(
        self, kwargs: Mapping[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Tell `failed` for a call that failed."""
        if (taken := self._taken(kwargs)) is None:
            return
        await _settle(taken[0], self._failed, f"{kwargs.get('exception') or 'the call failed'}")

    async def _pick(self, prompt: str, generators: Sequence[str], rest: float = 1.0) -> AsyncPick | None:
        """A pick of one of these generators; None where there is none before the deadline.

        rest: seconds after a failure in which the service is not asked, so that requests do not wait for one that is
        down.
        """
        if not generators or time.monotonic() < self._resting_until:
            return None
        try:
            async with asyncio.timeout(self._deadline):
                context = await _awaited(self._embed(prompt))
                return await self.experiment.ask(context=context, prompt=prompt, generators=generators)
        except Exception as error:  # whatever it is, the request is answered
            self._resting_until = time.monotonic() + rest
            _log.warning("LiteLLM chooses by itself for %g s: %s", rest, f"{error}" or "no pick in time")
            return None

    def _taken(self, kwargs: Mapping[str, Any]) -> tuple[AsyncPick, str] | None:
        """The pick, and the prompt, of a request that has ended; None for one that was routed by none."""
        metadata: dict[str, Any] = kwargs.get("litellm_params", {}).get("metadata") or {}
        return self._open.pop(metadata.get(NOTE, ""), None)


def router(
    experiment: AsyncExperiment,
    embed: Callable[[str], Any],
    score: Callable[[str, Any], Any],
    *,
    model: str | None = None,
    failed: float | None = None,
    deadline: float = 0.05,
) -> Any:
    """A plugin for `litellm.callbacks`, by which an experiment with the goal "route" chooses among deployments.

    experiment: its generators have the ids of deployments (`model_info.id`); prompts of a group without such a
        deployment are left to LiteLLM. embed: from the prompt's text to its context. score: from the prompt's text
        and LiteLLM's response to a number, or None where there is none. Both may be coroutine functions. model: the
        group of deployments that is routed; None: all. failed: the score of a call that fails; None: it gives its pick
        up. deadline: seconds for embedding and pick, after which LiteLLM chooses by itself.

    LiteLLM calls plugins for its asynchronous methods, such as `Router.acompletion`, only. Raises ModuleNotFoundError
    where litellm is missing.
    """
    logger = need("litellm.integrations.custom_logger", "litellm").CustomLogger
    plugin: Any = type("OptimistRouter", (RouterPlugin, logger), {})(
        experiment, embed, score, model=model, failed=failed, deadline=deadline
    )
    logger.__init__(plugin)
    return plugin


def prompt_of(messages: Sequence[Mapping[str, Any]] | None) -> str:
    """The text of the newest message of a user; "" without one."""
    for message in reversed(messages or ()):
        if message.get("role") == "user":
            content = message.get("content") or ""
            parts: list[Any] = [content] if isinstance(content, str) else list(content)
            return "\n".join(part if isinstance(part, str) else part.get("text", "") for part in parts)
    return ""


def _deployment(kwargs: Mapping[str, Any]) -> str | None:
    """The id of the deployment that a request was sent to."""
    model: dict[str, Any] = kwargs.get("litellm_params", {}).get("model_info") or {}
    return model.get("id")


async def _settle(pick: AsyncPick, score: float | None, reason: str) -> None:
    try:
        await (pick.give_up(reason) if score is None else pick.tell([float(score)]))
    except (OptimistError, OSError) as error:
        _log.warning("what became of an answer of %s is lost: %s", pick.generator, error)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
