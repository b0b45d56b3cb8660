"""What each experiment asks: its bound, made once, when its kernels can be fixed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.evaluation import Question, first_rows
from optimist.numerics.bound import Bound
from optimist.numerics.fid.reference import Reference
from optimist.scoring.warm import batch
from optimist.store import Claim, LogEntry, Store, kernels_digest, namespace_of
from optimist_client import tensors
from optimist_client.models import Experiment

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class InThread(Protocol):
    """Runs numerics off the event loop."""

    def __call__(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> asyncio.Future[Result]:
        """What the function returns, awaitable."""
        ...


@dataclass(slots=True)
class Asked:
    """An experiment that can be scored; `instance` tells it from others of its name.

    Its bound may be dropped between batches, and is made again, the same to the last bit.
    """

    instance: str
    growth: float
    kernels: str
    """`kernels_digest` of what the first samples have fixed; empty where nothing was open."""
    made: Bound | None
    bytes: int
    """Of the bound's feature maps; 0 while there is none. References are shared and counted apart."""

    @property
    def bound(self) -> Bound:
        """The bound, which is there while the experiment is worked on."""
        assert self.made is not None, "dropped while it was worked on"
        return self.made


class References:
    """The references of all experiments that this process scores: equal ones are one, and decomposed once.

    One is kept as long as the bound of an experiment uses it.
    """

    def __init__(self, store: Store, in_thread: InThread, device: torch.device) -> None:
        self._store = store
        self._in_thread = in_thread
        self._device = device
        self._made: WeakValueDictionary[str, Reference] = WeakValueDictionary()
        self._making: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def bytes(self) -> int:
        """Of all that are kept."""
        return sum(reference.bytes for reference in list(self._made.values()))

    async def get(self, full_name: str, reference: str) -> Reference:
        """The reference called so in the namespace of an experiment. Raises ValueError where it is gone."""
        stored = self._store.of(namespace_of(full_name)).references
        digest = await stored.digest(reference)
        if digest is not None:
            async with self._making.setdefault(digest, asyncio.Lock()):
                if (known := self._made.get(digest)) is not None:
                    return known
                if (found := await stored.get(reference)) is not None:
                    made = self._made[digest] = await self._in_thread(reference_of, found[1], self._device)
                    return made
        raise ValueError(f"reference {reference!r} is gone")


class Questions:
    """The bounds of all experiments that this process scores, each made once, and again after it was dropped."""

    def __init__(self, store: Store, in_thread: InThread, device: torch.device) -> None:
        self._device = device
        self._store = store
        self._in_thread = in_thread
        self._references = References(store, in_thread, device)
        self._asked: dict[str, Asked] = {}
        self._making: dict[str, asyncio.Lock] = {}

    async def get(self, name: str, generator: int, claim: Claim) -> Asked | None:
        """The experiment of this claim; None where it is gone, or has too few samples to fix its kernels.

        Raises ValueError where its reference is gone.
        """
        async with self._making.setdefault(name, asyncio.Lock()):
            known = self._asked.get(name)
            if known is not None and known.instance == claim.instance and known.made is not None:
                return known
            self._asked.pop(name, None)
            asked = await self._make(name, generator, claim)
            if asked is None:
                return None
            if known is not None and (known.instance, known.kernels) == (asked.instance, asked.kernels):
                # The same object: those who hold it know what they have published.
                known.made, known.bytes = asked.made, asked.bytes
                asked = known
            self._asked[name] = asked
            return asked

    def forget_fitted(self, name: str | None = None) -> None:
        """Make the bound of one experiment, or of all, anew where samples fixed kernels: Redis may have lost them."""
        for known in list(self._asked) if name is None else [name]:
            if known in self._asked and self._asked[known].kernels:
                del self._asked[known]

    @property
    def bytes(self) -> int:
        """Of all feature maps and references."""
        return sum(asked.bytes for asked in self._asked.values()) + self._references.bytes

    @property
    def warm(self) -> list[str]:
        """The experiments whose bound is there."""
        return [name for name, asked in self._asked.items() if asked.made is not None]

    def cool(self, name: str) -> int:
        """Drop the bound of an experiment until it is asked for; the bytes that are free then."""
        before, asked = self._references.bytes, self._asked[name]
        freed, asked.made, asked.bytes = asked.bytes, None, 0
        return freed + before - self._references.bytes

    def keep(self, names: set[str]) -> None:
        """Forget all others."""
        for name in self._making.keys() - names:
            if not self._making[name].locked():
                del self._making[name]
                self._asked.pop(name, None)

    async def _make(self, name: str, generator: int, claim: Claim) -> Asked | None:
        text = await self._store.config(name)
        if text is None:
            return None
        experiment = Experiment.model_validate_json(text)
        wanted = experiment.config.setting("reference")
        reference = None if wanted is None else await self._references.get(name, wanted)
        question = await self._in_thread(question_of, experiment, reference, self._device)
        fitted = None
        if question.open_kernels:
            fitted = await self._store.fitted(name) or await self._fit(question, name, generator, claim)
            if fitted is None:
                return None
            question = unpack(question, fitted)
        bound = await self._in_thread(question.bound_for, experiment.widths)
        digest = kernels_digest(fitted)
        return Asked(claim.instance, experiment.config.rescore_growth, digest, bound, bytes_of(bound))

    async def _fit(self, question: Question, name: str, generator: int, claim: Claim) -> bytes | None:
        """Fix the open kernels for good; None while active generators have too few samples."""
        active = (await self._store.look(name)).active
        needed = question.rows_to_fit(len(active))
        if any(state.samples < needed for state in active):
            return None
        read = {state.ordinal: await self._first_batches(name, state.ordinal, needed) for state in active}
        logs = [[tensors for _, tensors in log] for log in read.values()]
        if not all(logs):
            return None
        found = await self._in_thread(question.fitted, first_rows(logs, needed))
        # Whoever was first is right, and all find the same of the same generators.
        ends = {ordinal: log[-1][0] for ordinal, log in read.items()}
        return await self._store.put_fitted(name, generator, _pack(question, found), claim.token, ends)

    async def _first_batches(self, name: str, generator: int, rows: int) -> list[tuple[LogEntry, dict[str, Tensor]]]:
        """The first batches with as many rows, those that cannot be read left out; none where there are too few."""
        found: list[tuple[LogEntry, dict[str, Tensor]]] = []
        seq, chain = 0, ""
        while entries := await self._store.read_log(name, generator, seq, max_entries=32, chain=chain):
            for entry in entries:
                with contextlib.suppress(ValueError):
                    found.append((entry, batch(entry)[0]))
                    rows -= entry.rows
                if rows <= 0:
                    return found
            seq, chain = entries[-1].seq, entries[-1].chain
        return []


def bytes_of(thing: Any, seen: set[int] | None = None) -> int:
    """Of the tensors that an object and its parts hold, each storage once; references, which are shared, left out."""
    seen = set() if seen is None else seen
    if isinstance(thing, Tensor):
        storage = thing.untyped_storage()
        known, size = storage.data_ptr(), storage.nbytes()
    else:
        known, size = id(thing), 0
    if known in seen or isinstance(thing, Reference):
        return 0
    seen.add(known)
    parts = thing.values() if isinstance(thing, dict) else getattr(thing, "__dict__", {}).values()
    return size + sum(bytes_of(part, seen) for part in parts)


def reference_of(body: bytes, device: torch.device | str = "cpu") -> Reference:
    """The moments of a stored reference; their eigendecomposition is done here."""
    moments = tensors.decode(body)
    return Reference(moments["mean"], moments["covariance"], device)


def question_of(experiment: Experiment, reference: Reference | None, device: torch.device | str = "cpu") -> Question:
    """What an experiment asks."""
    config, metric = experiment.config, experiment.config.declared
    return Question(
        metric if reference is None else metric.model_copy(update={"reference": reference}),
        config.bound,
        config.delta,
        options=config.bound_options.given(),
        device=device,
        rules=experiment.rules,
    )


def _pack(open_question: Question, question: Question) -> bytes:
    """What samples have fixed of the kernels that were open: "<field>.sigma" (1,) and "<field>.landmarks" (m, d)."""
    fixed: dict[str, NDArray[np.float64]] = {}
    for field in open_question.open_kernels:
        kernel = question.kernels[field]
        fixed[f"{field}.sigma"] = np.array([kernel.sigma])
        if kernel.landmarks is not None:
            fixed[f"{field}.landmarks"] = kernel.landmarks
    return tensors.encode(fixed)


def unpack(open_question: Question, fitted: bytes) -> Question:
    """The question with its open kernels as `_pack` has them."""
    arrays = tensors.decode(fitted)
    found: dict[str, dict[str, Any]] = {field: {} for field in open_question.open_kernels}
    for name, array in arrays.items():
        field, _, part = name.partition(".")
        found[field][part] = float(array[0]) if part == "sigma" else array
    return open_question.closed(found)
