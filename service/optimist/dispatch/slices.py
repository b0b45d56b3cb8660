"""The prompts of the next picks: each generator gets slices of the experiment's seeded order, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from optimist.dispatch.prompts import prompt_order
from optimist.store import GeneratorState
from optimist_client.models import ExperimentConfig


@dataclass(frozen=True, slots=True)
class Slice:
    """`size` prompts from position `start` of the order; `again`: the number of the pick that returned them, if any."""

    start: int
    size: int
    prompts: list[str]
    indices: list[int]
    """The places of the prompts in the experiment's list."""
    again: int | None = None


def next_slice(config: ExperimentConfig, generator: GeneratorState, size: int) -> Slice:
    """The slice of at most `size` prompts that the generator's next pick takes.

    Returned slices come first, so that all generators are compared on the same prompts; they may be shorter.
    """
    assert config.prompts is not None
    start, again = generator.handed, None
    for returned in generator.returned:
        if returned.size <= size:
            start, size, again = returned.start, returned.size, returned.pick
            break
    order = prompt_order(len(config.prompts), config.seed, start, size, passes=config.list_length is not None)
    return Slice(start, size, [config.prompts[index] for index in order], order, again)
