"""Which prompts the next picks are for: each generator's slices of the experiment's seeded order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimist.dispatch.prompts import prompt_order
from optimist.store import GeneratorState
from optimist_client.models import ExperimentConfig


@dataclass(frozen=True, slots=True)
class Slice:
    """`size` prompts from position `start` of the order; `again`: the pick that gave them back, if one did."""

    start: int
    size: int
    prompts: list[str]
    again: int | None = None


class Slices:
    """Hands out slices on top of one look at the store; the compare-and-set on rounds keeps two replicas apart.

    Slices given back go out first, so that all generators are compared on the same prompts.
    """

    def __init__(self, config: ExperimentConfig, generators: Sequence[GeneratorState]) -> None:
        assert config.prompts is not None
        self._prompts = config.prompts
        self._seed = config.seed
        self._handed = [generator.handed for generator in generators]
        self._returned = [list(generator.returned) for generator in generators]

    def take(self, generator: int, size: int) -> Slice:
        """The next slice of at most `size` prompts: a returned one may be shorter."""
        for index, returned in enumerate(self._returned[generator]):
            if returned.size <= size:
                del self._returned[generator][index]
                return self._slice(returned.start, returned.size, returned.pick)
        start = self._handed[generator]
        self._handed[generator] += size
        return self._slice(start, size, None)

    def _slice(self, start: int, size: int, again: int | None) -> Slice:
        order = prompt_order(len(self._prompts), self._seed, start, size)
        return Slice(start, size, [self._prompts[index] for index in order], again)
