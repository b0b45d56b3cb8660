"""How an experiment went, as charts draw it."""

from __future__ import annotations

from optimist_client.wire import Answer, GeneratorName


class Curve(Answer):
    """Estimates of a generator as they were made, on the natural scale; None where unknown or infinite."""

    told: list[int]
    """Batches told to the whole experiment when each was made."""
    samples: list[int]
    """Samples each is made of."""
    scores: list[float | None]
    lower: list[float | None]
    upper: list[float | None]


class GeneratorProgress(Answer):
    """One generator, retired or not, at the checkpoints of `Progress`."""

    generator: GeneratorName
    batches: list[int]
    """Batches told so far, by checkpoint: pick shares, regret and pick ratio follow from these."""
    curve: Curve


class OpenPickInfo(Answer):
    """A pick under lease."""

    number: int
    generator: GeneratorName
    size: int
    worker: str | None
    opened: float
    deadline: float
    """Unix times of the service."""
    stale: bool


class Progress(Answer):
    """How an experiment went, as charts draw it: counts at checkpoints, the estimates as they were made, open picks.

    The checkpoints are the multiples of `stride`, a power of two that grows so that there are never more than 256, and
    the newest batch. Those after the number that was asked for are here, and the last before it; of earlier ones, what
    is no multiple of `stride` is to be dropped. Estimates come in the same way. Where the last one before is another
    than the one that is known, Redis has lost batches that were told: nothing known earlier holds.
    """

    instance: str
    """`Experiment.instance`: under another one, nothing known earlier holds."""
    told: int
    """Batches told; the `after` to ask for next. Estimates made just then may come again."""
    stride: int
    rounds: list[int]
    samples: list[int]
    """Samples told in all, by checkpoint."""
    generators: list[GeneratorProgress]
    picks: list[OpenPickInfo]
    """Open picks, the newest 100 at most."""
