"""`experiment.run`: loops that ask, call the user's functions and tell, and what becomes of open picks in the end."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from optimist_client.errors import GeneratorError
from optimist_client.models import AskReply, DecisionInfo
from optimist_client.pick import PickOperations
from optimist_client.progress import Progress
from optimist_client.transport import Transport

Draw = Callable[[str, float | None], Coroutine[Any, Any, tuple[AskReply, PickOperations | None]]]
"""Asks once for a worker, with so many seconds of patience."""


@dataclass(frozen=True)
class Makers:
    """The user's functions, as `Experiment.run` describes them."""

    transport: Transport
    generators: Mapping[str, Callable[..., Any]]
    embed: Callable[[Any], Any] | None
    embed_prompts: Callable[[list[str]], Any] | None
    embedding: str | None = None
    """The name that batches are told under."""

    async def make(self, pick: PickOperations) -> dict[str, Any]:
        """What the pick is told with. Raises `GeneratorError`."""
        prompts = [pick.prompts] if pick.prompts else []
        generator = self.generators[pick.generator]
        batch = await self._apply(pick, "generating", generator, pick.size, pick.seed, *prompts)
        if self.embed is not None:
            batch = await self._apply(pick, "embedding", self.embed, batch)
        if self.embed_prompts is None or not prompts:
            return {"batch": batch, "embedding": self.embedding}
        embedded = await self._apply(pick, "embedding prompts", self.embed_prompts, *prompts)
        return {"batch": batch, "prompts": embedded, "embedding": self.embedding}

    async def _apply(self, pick: PickOperations, doing: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return await self.transport.apply(function, *args)
        except Exception as error:
            raise GeneratorError(
                f"generator {pick.generator!r}: {doing} raised {type(error).__name__}: {error} "
                f"(pick {pick.number}: {pick.size} samples, seed {pick.seed}); the pick was given back",
                pick.generator,
            ) from error


class Run:
    """The loops of one call of `run`, and what they share: the samples still allowed, the open picks, and the end."""

    def __init__(
        self, transport: Transport, makers: Makers, draw: Draw, progress: Progress, max_samples: int | None
    ) -> None:
        self._transport = transport
        self._makers = makers
        self._draw = draw
        self._progress = progress
        self._max_samples = max_samples
        self._lock = threading.Lock()
        self._drawn = 0
        self._told = 0
        self._open: set[PickOperations] = set()
        self._ending = False

    async def work(self, workers: int) -> None:
        """Run so many loops until all have ended. Raises what the first to fail raised."""
        await self._transport.together([self._loop] * workers, self._interrupted)

    async def _loop(self) -> None:
        worker = f"run-{uuid.uuid4().hex}"
        try:
            while not self._ending and self._may_draw():
                reply, pick = await self._ask(worker)
                self._show(0, reply.decision)
                if pick is not None:
                    await self._serve(pick)
                elif reply.retry_after is not None:
                    await self._transport.sleep(reply.retry_after)
                else:
                    return
        except BaseException:
            self._ending = True
            raise

    async def _ask(self, worker: str) -> tuple[AskReply, PickOperations | None]:
        try:
            return await self._draw(worker, None)
        except Exception:
            raise
        except BaseException:
            # Interrupted before the answer came: the same worker gets the pick that it may have opened.
            _, pick = await self._draw(worker, 2.0)
            if pick is not None:
                await pick._leave("interrupted")
            raise

    async def _serve(self, pick: PickOperations) -> None:
        reason = "max_samples was reached"
        self._open.add(pick)
        try:
            if self._ending or not self._take(pick.size):
                return
            told = await self._makers.make(pick)
            # Ctrl-C in the main thread has given it back meanwhile.
            if not pick.settled:
                await PickOperations.tell(pick, **told)
                self._show(pick.size)
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            if not isinstance(error, GeneratorError):
                error.add_note(f"in pick {pick.number}, of generator {pick.generator!r}")
            raise
        finally:
            await pick._leave(reason)
            self._open.discard(pick)

    async def _interrupted(self) -> None:
        """Give back what is open; loops in other threads end when they are through with what they make."""
        self._ending = True
        for pick in list(self._open):
            await pick._leave("interrupted")

    def _may_draw(self) -> bool:
        return self._max_samples is None or self._drawn < self._max_samples

    def _take(self, size: int) -> bool:
        """Whether so many samples are still allowed; they are taken."""
        with self._lock:
            allowed = self._max_samples is None or self._drawn + size <= self._max_samples
            self._drawn += size
            return allowed

    def _show(self, told: int, decision: DecisionInfo | None = None) -> None:
        with self._lock:
            self._told += told
            self._progress.update(self._told, decision)
