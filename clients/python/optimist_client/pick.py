"""A pick as workers see it: what to sample, and what is told or given up."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from optimist_client import models
from optimist_client.errors import Fix, OptimistError
from optimist_client.operations import Awaiting, Blocking, operation
from optimist_client.transport import Transport

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class PickOperations:
    """What `Pick` and `AsyncPick` do."""

    def __init__(
        self, transport: Transport, info: models.Pick, tensor: str, generators: list[str] | None = None
    ) -> None:
        """generators: those that whoever asked for it can sample, if not all; the next one is one of them too."""
        self._transport = transport
        self._tensor = tensor
        self._generators = generators
        self._asks_on = False
        self._ended = False
        self.info = info
        self.next: Self | None = None
        """The pick that the answer to `tell(next=True)` brought; None where there is none now."""
        self.settled = False
        """Whether it was told or given up."""

    @property
    def number(self) -> int:
        """The round, counted from 1."""
        return self.info.number

    @property
    def generator(self) -> str:
        """Name of the generator to sample."""
        return self.info.generator

    @property
    def size(self) -> int:
        """How many samples to make."""
        return self.info.size

    @property
    def seed(self) -> int:
        """Seed for the generator's randomness, distinct for every pick."""
        return self.info.seed

    @property
    def prompts(self) -> list[str]:
        """The prompt of each sample to make, in order; empty where the experiment holds no prompts."""
        return self.info.prompts or []

    @operation
    async def tell(
        self,
        batch: ArrayLike | Mapping[str, ArrayLike],
        *,
        prompts: ArrayLike | None = None,
        ids: Sequence[object] | None = None,
        embedding: str | None = None,
        next: bool = False,
    ) -> models.TellReply:
        """Tell the rows (n, d) of the samples made; when this returns, they are stored and count once.

        They are features, or class probabilities where the metric is "is"; a mapping names its arrays itself. `prompts`
        (n, d_t) are the embeddings of the prompts, for scores of pairs; `ids` name the samples, as URIs do, so that
        `modes` can show them: each is taken as text. `embedding` names what made the rows: the experiment's own, where
        it has one; any other is refused. `next` asks for the next pick as well, for `self.next`.
        Telling the same again returns the same reply; other values raise `Conflict`, more rows than the pick asks for
        `Fix`, and a pick that the service no longer knows `Stop`. float16 and float32 travel as they are, bfloat16 as
        float32, everything else as float64. Tensors of torch are taken as they are, wherever they lie. Raises
        ValueError for what is no array of real numbers, and for ids of more than 1024 bytes.
        """
        # numpy comes with it, which a program that only looks does without.
        from optimist_client.tensors import IDS, MEDIA_TYPE, as_floats, encode, pack_ids

        named: dict[str, Any] = dict(batch) if isinstance(batch, Mapping) else {self._tensor: batch}
        named |= {} if prompts is None else {"prompts": prompts}
        named |= {} if ids is None else {IDS: ids}
        arrays: dict[str, NDArray[Any]] = {
            name: pack_ids([f"{text}" for text in values]) if name == IDS else as_floats(name, values)
            for name, values in named.items()
        }
        answer = await self._transport.call(
            "POST",
            f"/v1/experiments/{self.info.experiment}/picks/{self.number}/batch",
            body=encode(arrays),
            media_type=MEDIA_TYPE,
            params=self._params(next or self._asks_on) | ({} if embedding is None else {"embedding": embedding}),
        )
        reply = models.TellReply.model_validate(answer)
        self.settled = True
        if reply.generator != self.generator:
            raise Fix(f"the samples of {self.generator!r} were counted for {reply.generator!r}: please report this")
        if reply.next is not None:
            self._ended = reply.next.ended
            for following in reply.next.picks:  # one at most
                self.next = type(self)(self._transport, following, self._tensor, self._generators)
        return reply

    @operation
    async def give_up(self, reason: str = "") -> None:
        """Return the pick untold: it no longer counts as on its way."""
        await self._give_up(reason)

    async def _give_up(self, reason: str, patience: float | None = None) -> None:
        path = f"/v1/experiments/{self.info.experiment}/picks/{self.number}"
        params = {"reason": reason[:1000], **self._identity}
        await self._transport.call("DELETE", path, params=params, patience=patience)
        self.settled = True

    async def _leave(self, reason: str) -> None:
        """Give it up if it is open. Where the service is gone, the lease runs out by itself."""
        if not self.settled:
            with contextlib.suppress(OptimistError):
                await self._give_up(reason, patience=2.0)

    @property
    def _identity(self) -> dict[str, str]:
        """What tells it from any other pick of its number."""
        known = {"instance": self.info.instance, "nonce": self.info.nonce}
        return {name: value for name, value in known.items() if value is not None}

    def _params(self, asks_on: bool) -> dict[str, str | int | list[str]]:
        if not asks_on:
            return {**self._identity}
        asked = {"worker": self.info.worker, "generators": self._generators}
        return {"next": 1, **{name: value for name, value in asked.items() if value is not None}, **self._identity}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number}: {self.size} × {self.generator}>"


class Pick(PickOperations, Blocking):
    """Sample `size` samples of `generator` with `seed`, then `tell` their features."""


class AsyncPick(PickOperations, Awaiting):
    """`Pick` for asyncio: sample `size` samples of `generator` with `seed`, then await `tell` of their features."""
