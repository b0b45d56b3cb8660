"""The SDK's pick: which generator to sample, and the operations to tell the batch or give the pick up."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from optimist_client import models
from optimist_client.errors import FixError, OptimistError
from optimist_client.operations import Awaiting, Blocking, operation
from optimist_client.previews import answers_of, request_of
from optimist_client.transport import Transport
from optimist_client.validation import is_mapping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class EncodedBatch(NamedTuple):
    """A batch for a pick: its arrays by name, what people look at, and the body of the request."""

    arrays: Mapping[str, NDArray[Any]]
    previews: Sequence[Any] | NDArray[Any] | None
    body: bytes


class PickOperations:
    """The operations of `Pick` and `AsyncPick`."""

    def __init__(
        self,
        transport: Transport[Any],
        info: models.Pick,
        tensor: str,
        generators: list[str] | None = None,
        *,
        has_previews: bool = False,
    ) -> None:
        """generators: the names that the worker can sample (None: all), also for the next pick.

        has_previews: whether the experiment keeps previews.
        """
        self._transport = transport
        self._tensor = tensor
        self._generators = generators
        self._has_previews = has_previews
        self.asks_on = False
        self.ended = False
        # For `Experiment`, which tells many picks at once and gives up those that are left.
        self.encoded, self.accepted, self.leave = self._encoded, self._accepted, self._leave
        self.info = info
        self.next: Self | None = None
        """The next pick, from the reply to `tell(next=True)`; None if there is none."""
        self.settled = False
        """True if the pick was told or given up."""

    @property
    def number(self) -> int:
        """The number of the round, starting at 1."""
        return self.info.number

    @property
    def generator(self) -> str:
        """Name of the generator to sample."""
        return self.info.generator

    @property
    def size(self) -> int:
        """Number of samples to generate."""
        return self.info.size

    @property
    def seed(self) -> int:
        """Seed for the generator's random numbers. In a paired experiment it is the same for every generator's samples
        of these indices, so that a generator that draws its latents from it is compared on common ones.
        """
        return self.info.seed

    @property
    def start(self) -> int | None:
        """Index of the first sample in the generator's sequence; None with the goal "route"."""
        return self.info.start

    @property
    def seeds(self) -> list[int]:
        """A seed for each sample: that of index i is the same in every pick that has the index.

        Raises FixError with the goal "route", where neighbouring picks would share seeds.
        """
        if self.info.start is None:
            raise FixError(
                f"pick {self.number} has no seeds of its samples: {self.info.experiment!r} routes prompts, use `seed`"
            )
        return [(self.seed + index) % 2**32 for index in range(self.size)]

    @property
    def prompts(self) -> list[str]:
        """The prompt of each sample, in order; empty if the experiment has no prompts."""
        return self.info.prompts or []

    @operation
    async def tell(
        self,
        batch: ArrayLike | Mapping[str, ArrayLike],
        *,
        prompts: ArrayLike | None = None,
        ids: Sequence[object] | None = None,
        records: Sequence[Any] | None = None,
        embedding: str | None = None,
        embeddings: Mapping[str, str] | None = None,
        previews: Sequence[Any] | NDArray[Any] | None = None,
        next: bool = False,
    ) -> models.TellReply:
        """Tell the rows (n, d) of the generated samples. When this returns, they are stored and count once.

        They are features, or class probabilities for the metric "is", or a mapping of named arrays, as experiments with
        several metrics need; arrays of one column, as of `Mean`, may be (n,), and a number is one sample. `prompts`
        (n, d_t) are the embeddings of the prompts, for metrics of pairs. `ids` identify the samples, for example by
        URI, so that `modes` can show them; each is converted to text. `records` are kept with the log: of each sample
        a value that JSON can represent, of at most 8 KiB, such as {"prompt": …, "answer": …, "reason": …}, or None;
        `Experiment.records` reads them. `embedding` is the name of the rows' embedding,
        `embeddings` are those of several arrays by name; they must be the experiment's own, if it names some. `next`
        also asks for the next pick, which is then in `self.next`.

        previews: for people to look at, in an experiment with `previews`: for each sample a text, a PIL image, an array
        of pixels, the bytes of a PNG, JPEG or WebP file, the path of an image, or None. Without them, records that are
        texts, or have an "answer", are shown by these. They are sent after the batch was stored, at most 16 of it,
        images as thumbnails of 256 pixels. Where that fails there is only a warning.

        Telling the same batch again returns the same reply. Other values raise `ConflictError`, more rows than
        requested, ids of more than 1024 bytes and anything that is no array of real numbers raise `FixError`, a pick
        that the service no longer knows raises `StopError`. float16 and float32 are sent unchanged, bfloat16 as
        float32, everything else as float64. torch tensors may be on any device.
        """
        from optimist_client.tensors import IDS, MEDIA_TYPE, RECORDS

        beside = {"prompts": prompts, IDS: ids, RECORDS: records}
        told = self._encoded(batch, previews, {name: values for name, values in beside.items() if values is not None})
        answer = await self._transport.call(
            "POST",
            f"/v1/experiments/{self.info.experiment}/picks/{self.number}/batch",
            body=told.body,
            media_type=MEDIA_TYPE,
            params=self._params(next or self.asks_on) | named_embeddings(embedding, embeddings),
        )
        reply = await self._accepted(told, models.TellReply.model_validate(answer))
        if reply.next is not None:
            self.ended = reply.next.ended
            for following in reply.next.picks:  # one at most
                self.next = type(self)(
                    self._transport, following, self._tensor, self._generators, has_previews=self._has_previews
                )
        return reply

    def _encoded(
        self, batch: Any, previews: Sequence[Any] | NDArray[Any] | None = None, beside: Mapping[str, Any] | None = None
    ) -> EncodedBatch:
        """A batch as it is sent. beside: further arrays of it."""
        # Imported here because a program that only reads reports does not need numpy.
        from optimist_client.tensors import RECORDS, encode

        named: dict[str, Any] = dict(batch) if is_mapping(batch) else {self._tensor: batch}
        named |= beside or {}
        arrays: dict[str, NDArray[Any]] = {name: packed(name, values) for name, values in named.items()}
        if previews is None and self._has_previews and RECORDS in named:
            previews = answers_of(named[RECORDS])
        rows = max((len(array) for array in arrays.values()), default=0)
        if previews is not None and len(previews) != rows:
            raise FixError(f"previews: expected {rows}, one for each sample, or None; got {len(previews)}")
        return EncodedBatch(arrays, previews, encode(arrays))

    async def _accepted(self, batch: EncodedBatch, reply: models.TellReply) -> models.TellReply:
        """Note that the batch was accepted, and send its previews."""
        self.settled = True
        if reply.generator != self.generator:
            raise FixError(
                f"the samples of {self.generator!r} were counted for {reply.generator!r}: please report this bug"
            )
        if batch.previews is not None:
            await self._show(batch.previews, batch.arrays)
        return reply

    async def _show(self, previews: Sequence[Any] | NDArray[Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Send previews of the told batch. Whatever goes wrong is a warning: the batch is stored and counts."""
        try:
            request = await self._transport.apply(request_of, previews, self.info.start, self.prompts, arrays)
            if request["previews"]:
                path = f"/v1/experiments/{self.info.experiment}/picks/{self.number}/previews"
                await self._transport.call("PUT", path, json=request, params=self._identity, patience=2.0)
        except Exception as error:
            # The same text each time, which Python shows once.
            warnings.warn(f"previews of {self.info.experiment!r} were not kept: {error}", stacklevel=2)

    @operation
    async def give_up(self, reason: str = "", *, patience: float | None = None) -> None:
        """Give the pick up without telling a batch: it is no longer open.

        patience: seconds for which the request is repeated without an answer, if not those of the client.
        """
        path = f"/v1/experiments/{self.info.experiment}/picks/{self.number}"
        params = {"reason": reason[:1000], **self._identity}
        await self._transport.call("DELETE", path, params=params, patience=patience)
        self.settled = True

    async def _leave(self, reason: str) -> None:
        """Give the pick up if it is open. If the service cannot be reached, the lease expires by itself."""
        if not self.settled:
            with contextlib.suppress(OptimistError):
                await PickOperations.give_up(self, reason, patience=2.0)

    @property
    def _identity(self) -> dict[str, str]:
        """The parameters that distinguish this pick from others with the same number."""
        return {"instance": self.info.instance, "nonce": self.info.nonce}

    def _params(self, asks_on: bool) -> dict[str, str | int | list[str]]:
        if not asks_on:
            return {**self._identity}
        asked = {"worker": self.info.worker, "generators": self._generators}
        return {"next": 1, **{name: value for name, value in asked.items() if value is not None}, **self._identity}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number}: {self.size} × {self.generator}>"


def packed(name: str, values: Any) -> NDArray[Any]:
    """An array of a batch as it is sent."""
    from optimist_client.tensors import IDS, RECORDS, as_floats, pack_ids, pack_records

    if name == RECORDS:
        return pack_records(values)
    return pack_ids([f"{text}" for text in values]) if name == IDS else _rows(as_floats(name, values))


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    """A single number as an array of one sample."""
    return array if array.ndim else array.reshape(1)


def named_embeddings(embedding: str | None, embeddings: Mapping[str, str] | None) -> dict[str, str | list[str]]:
    """The parameters that name the embeddings of a batch."""
    named: dict[str, str | list[str]] = {} if embedding is None else {"embedding": embedding}
    return named | ({"embeddings": [f"{array}:{name}" for array, name in embeddings.items()]} if embeddings else {})


class Pick(PickOperations, Blocking):
    """A pick: generate `size` samples of `generator` with `seed`, then `tell` their features."""


class AsyncPick(PickOperations, Awaiting):
    """`Pick` for asyncio: generate `size` samples of `generator` with `seed`, then await `tell` with their features."""
