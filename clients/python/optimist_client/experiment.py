"""One experiment as workers see it: its picks, what they are told with, and its report."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist_client import models, tensors
from optimist_client.config import TENSORS
from optimist_client.errors import OptimistError
from optimist_client.transport import Transport


class Experiment:
    """One experiment on the service. `info` holds its config."""

    def __init__(self, transport: Transport, info: models.Experiment) -> None:
        self._transport = transport
        self.info = info
        self.name = info.config.name
        self._tensor = TENSORS[info.config.metric][0]

    def ask(self, *, worker: str | None = None) -> Pick | None:
        """The next pick, or None when the experiment has ended.

        With a `worker` name (unique per loop), a pick this worker still has open is returned again.
        """
        request = models.AskRequest(worker=worker, request_id=uuid.uuid4().hex)
        while True:
            answer = self._transport.call(
                "POST", f"/v1/experiments/{self.name}/picks", json=request.model_dump(exclude_none=True)
            )
            reply = models.AskReply.model_validate(answer)
            if reply.picks:
                return Pick(self._transport, reply.picks[0], self._tensor)
            if reply.retry_after is None:
                return None
            time.sleep(reply.retry_after)

    def picks(self, max_samples: int | None = None, *, worker: str | None = None) -> Iterator[Pick]:
        """Picks until the experiment has ended, or until `max_samples` samples were picked here.

        Each pick must be told (or given up) before the next is drawn; one that is neither, as when the loop breaks or
        raises, is given up. Tell and ask travel together: one round trip a round.
        """
        worker = worker or f"loop-{uuid.uuid4().hex}"
        drawn = 0
        pick = self.ask(worker=worker)
        try:
            while pick is not None:
                drawn += pick.size
                if max_samples is not None and drawn > max_samples:
                    return
                pick._asks_on = max_samples is None or drawn < max_samples
                yield pick
                if not pick.settled:
                    pick.give_up("not told before the next pick was drawn")
                asks_on = pick._asks_on and not pick._ended
                pick = pick.next or (self.ask(worker=worker) if asks_on else None)
        finally:
            for left in (pick, pick and pick.next):
                if left is not None and not left.settled:
                    # The loop may be ending because the service is gone: the lease runs out by itself.
                    with contextlib.suppress(OptimistError):
                        left._give_up("the loop ended before the pick was told", patience=2.0)

    def stop(self) -> models.Report:
        """Open no more picks, until `resume`."""
        return self._change("", state="stopped")

    def resume(self, *, budget: int | None = None, stop: bool | None = None) -> models.Report:
        """Go on after `stop`, a decision or a spent budget, with a larger `budget` in samples where one is given.

        After a decision it runs on without deciding again, unless `stop` is True.
        """
        return self._change("", state="running", budget=budget, stop=stop)

    def add_generator(self, generator: str) -> models.Report:
        """Add a generator; one that is there stays as it is."""
        answer = self._transport.call("POST", f"/v1/experiments/{self.name}/generators", json={"name": generator})
        return models.Report.model_validate(answer)

    def set_state(self, generator: str, state: models.GeneratorState) -> models.Report:
        """Pause a generator, make it active again, or retire it for good. Raises `Conflict` for the last active one."""
        return self._change(f"/generators/{quote(generator, safe='')}", state=state)

    def _change(self, path: str, **fields: Any) -> models.Report:
        given = {name: value for name, value in fields.items() if value is not None}
        return models.Report.model_validate(
            self._transport.call("PATCH", f"/v1/experiments/{self.name}{path}", json=given)
        )

    def modes(self, generator: str, count: int = 5, samples: int = 8) -> models.Modes:
        """The generator's `count` largest modes, each with the `samples` that show it most, and groups of prompts.

        Raises `Fix` for metrics without a kernel, `Retry` when nothing was scored in time.
        """
        params = {"count": count, "samples": samples}
        path = f"/v1/experiments/{self.name}/generators/{quote(generator, safe='')}/modes"
        return models.Modes.model_validate(self._transport.call("GET", path, params=params))

    def export(self, path: str | Path) -> None:
        """Write the experiment to one file, for `Optimist.import_experiment`; a file that is there gives way.

        It goes on meanwhile. Picks that are open are not in the file. Raises `Stop` where part of it is damaged.
        """
        # Next to it, so that nobody finds half a file, and what is there stays until the new one is whole.
        part = Path(path).with_name(f".{Path(path).name}-{uuid.uuid4().hex}")
        try:
            with part.open("w+b") as file:
                self._transport.download(f"/v1/experiments/{self.name}/export", file)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def report(self) -> models.Report:
        """The standings, regret, pick ratio and decision as of now."""
        return models.Report.model_validate(self._transport.call("GET", f"/v1/experiments/{self.name}/report"))


class Pick:
    """Sample `size` samples of `generator` with `seed`, then `tell` their features."""

    def __init__(self, transport: Transport, info: models.Pick, tensor: str) -> None:
        self._transport = transport
        self._tensor = tensor
        self._asks_on = False
        self._ended = False
        self.info = info
        self.next: Pick | None = None
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

    def tell(
        self,
        batch: ArrayLike | Mapping[str, ArrayLike],
        *,
        prompts: ArrayLike | None = None,
        ids: Sequence[object] | None = None,
        next: bool = False,
    ) -> models.TellReply:
        """Tell the rows (n, d) of the samples made; when this returns, they are stored and count once.

        They are features, or class probabilities where the metric is "is"; a mapping names its arrays itself. `prompts`
        (n, d_t) are the embeddings of the prompts, for scores of pairs; `ids` name the samples, as URIs do, so that
        `modes` can show them: each is taken as text. `next` asks for the next pick as well, for `self.next`.
        Telling the same again returns the same reply; other values raise `Conflict`. float16 and float32 travel as
        they are, bfloat16 as float32, everything else as float64. Tensors of torch are taken as they are, wherever
        they lie. Raises ValueError for what is no array of real numbers, and for ids of more than 1024 bytes.
        """
        named: dict[str, Any] = dict(batch) if isinstance(batch, Mapping) else {self._tensor: batch}
        named |= {} if prompts is None else {"prompts": prompts}
        named |= {} if ids is None else {tensors.IDS: ids}
        arrays: dict[str, NDArray[Any]] = {
            name: tensors.pack_ids([f"{text}" for text in values]) if name == tensors.IDS else _floats(name, values)
            for name, values in named.items()
        }
        answer = self._transport.call(
            "POST",
            f"/v1/experiments/{self.info.experiment}/picks/{self.number}/batch",
            body=tensors.encode(arrays),
            media_type=tensors.MEDIA_TYPE,
            params=self._params(next or self._asks_on),
        )
        reply = models.TellReply.model_validate(answer)
        self.settled = True
        if reply.next is not None:
            self._ended = reply.next.ended
            self.next = Pick(self._transport, reply.next.picks[0], self._tensor) if reply.next.picks else None
        return reply

    def give_up(self, reason: str = "") -> None:
        """Return the pick untold: it no longer counts as on its way."""
        self._give_up(reason)

    def _give_up(self, reason: str, patience: float | None = None) -> None:
        path = f"/v1/experiments/{self.info.experiment}/picks/{self.number}"
        self._transport.call(
            "DELETE", path, params={"reason": reason[:1000], "instance": self.info.instance}, patience=patience
        )
        self.settled = True

    def _params(self, asks_on: bool) -> dict[str, str | int]:
        known: dict[str, str | int] = {"instance": self.info.instance}
        if not asks_on:
            return known
        worker = {} if self.info.worker is None else {"worker": self.info.worker}
        return {"next": 1, **worker, **known}

    def __repr__(self) -> str:
        return f"<Pick {self.number}: {self.size} × {self.generator}>"


def _floats(name: str, values: ArrayLike) -> NDArray[np.floating]:
    array = tensors.as_array(name, values)
    return array if array.dtype in (np.float16, np.float32) else array.astype(np.float64)
