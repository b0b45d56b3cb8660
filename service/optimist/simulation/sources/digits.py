"""The demo's live generators of handwritten digits as sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from optimist.estimation.question import Question, with_real_data
from optimist.experiments.slices import prompt_order
from optimist.simulation.digits.generators import TEXTS
from optimist.simulation.digits.world import KERNEL, PROMPT_KERNEL, Digits, load
from optimist.simulation.sources.base import Draw, Rows, SourceSet
from optimist_client.metrics import find


def digits(metric: str = "fid") -> SourceSet:
    """The demo's generators for `metric`, with the reference or the kernels that it needs."""
    made, kind = _loaded(), find(metric)
    names = made.prompted if "prompts" in kind.needs else made.family
    brought = {"reference": made.reference, "kernel": lambda: KERNEL, "prompt_kernel": lambda: PROMPT_KERNEL}
    settings = {name: bring() for name, bring in brought.items() if name in kind.settings()}
    made_sources = {name: DigitsSource(name, tuple(kind.arrays)) for name in names}
    return SourceSet(made_sources, {"metric": with_real_data(metric, **settings)}, aligned=True)


@dataclass(frozen=True)
class DigitsSource:
    """One of the demo's generators, sampled on demand: the feature network's output for its images."""

    name: str
    tensors: tuple[str, ...]

    samples = None

    @property
    def origin(self) -> str:
        return f"the live generator {self.name!r}"

    @property
    def widths(self) -> dict[str, int]:
        block = _block(self, seed=0, common=0, start=0, size=1)
        return {name: rows.shape[1] for name, rows in block.items()}

    def stream(self, draw: Draw) -> DigitsStream:
        return DigitsStream(self, draw)

    def exact(self, question: Question) -> None:
        """None: the true score of these generators has no closed form."""


class DigitsStream:
    """The samples of a live generator, generated in blocks, as single images would take 50 times as long.

    In a paired draw all generators have a block's seed.
    """

    def __init__(self, source: DigitsSource, draw: Draw, size: int = 500) -> None:
        self._source, self._size = source, size
        self._rng = draw.rng()
        self._common = draw.common
        self._block: Rows = {}
        self._made = 0
        self._left = 0

    def take(self, count: int) -> Rows:
        parts: list[Rows] = []
        while count:
            if not self._left:
                # From the draw, so that a trial gives the same images in whatever sizes they are taken.
                seed = int(self._rng.integers(2**63))
                self._block = _block(self._source, seed, self._common, self._made, self._size)
                self._made, self._left = self._made + self._size, self._size
            first, size = self._size - self._left, min(count, self._left)
            parts.append({name: rows[first : first + size] for name, rows in self._block.items()})
            self._left, count = self._left - size, count - size
        return _joined(parts)


def _joined(parts: list[Rows]) -> Rows:
    """The rows of all parts, concatenated."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _block(source: DigitsSource, seed: int, common: int, start: int, size: int) -> Rows:
    made = _loaded()
    if "prompts" in source.tensors:
        # Every generator gets the same prompts in the same order, as in the service.
        prompts = [TEXTS[index] for index in prompt_order(len(TEXTS), common, start, size)]
        images = made.prompted[source.name].sample(prompts, seed)
        return {"features": made.features(images), "prompts": made.embeddings(prompts)}
    images = made.family[source.name].sample(size, seed)
    return (
        {"probabilities": made.probabilities(images)}
        if "probabilities" in source.tensors
        else {"features": made.features(images)}
    )


@cache
def _loaded() -> Digits:
    """The digits, loaded once per process."""
    return load(progress=False)
