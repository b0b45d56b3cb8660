"""Plays experiments in memory: an `Evaluation` that is asked and told, and what is made of samples that are there."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import words
from words import Step
from world import PROMPTS, ROWS, World

import optimist
from optimist import Evaluation
from optimist_client.embedders import Function
from optimist_client.metrics import FID, KID, RKE, Gaussian, InceptionScore, Mean, Vendi

GENERATORS = ("a", "b", "c")


@dataclass(frozen=True)
class Asked:
    """An evaluation that is asked and told `rounds` times."""

    world: World
    settings: Mapping[str, Any]
    rounds: int = 40
    reads: tuple[str, ...] = ("features",)
    generators: Sequence[str] = GENERATORS
    has_indices: bool = True
    """Whether batches are told with the indices of their samples."""
    saved_after: int | None = None
    """After so many rounds it is saved, and goes on from the file."""


def asked(one: Asked) -> Iterator[Step]:
    """Play an evaluation."""
    evaluation = Evaluation(one.generators, **one.settings)
    is_list = one.settings.get("prompts_are") == "list"
    told = dict.fromkeys(one.generators, 0)
    for number in range(1, one.rounds + 1):
        name = evaluation.ask()
        start = evaluation.next_start(name) if one.has_indices else told[name]
        yield f"pick {number}", {"generator": name, "start": start}
        indices = range(start, start + evaluation.batch_size)
        prompts = [index % len(PROMPTS) for index in indices] if "prompts" in one.reads or is_list else None
        batch = one.world.batch(name, indices, prompts)
        listed: dict[str, Any] = {"prompt_indices": prompts} if is_list else {}
        if not one.has_indices:
            listed["start"] = None
        evaluation.tell(name, {array: batch[array] for array in one.reads}, **listed)
        told[name] += evaluation.batch_size
        yield f"estimate of {name} after pick {number}", words.estimate(evaluation.estimates()[name])
        for label, found in evaluation.watched.items():
            yield f"estimate of {name} by {label} after pick {number}", words.estimate(found[name])
        yield f"decision after pick {number}", words.decision(evaluation.decision())
        if number == one.saved_after:
            evaluation = _saved(evaluation)
    yield from words.report(evaluation.report(), place="at the end")
    if one.settings.get("goal") == "mixture":
        yield "blend", {"counts": [evaluation.blend(7).counts for _ in range(3)]}


def _saved(evaluation: Evaluation) -> Evaluation:
    with tempfile.TemporaryDirectory() as place:
        evaluation.save(Path(place) / "evaluation.npz")
        return Evaluation.load(Path(place) / "evaluation.npz")


def samples(world: World, sizes: Sequence[int] = (60, 45, 80), array: str | None = "features") -> dict[str, Any]:
    """An array of each generator, or with None all its arrays."""
    made = {}
    for name, size in zip(GENERATORS, sizes, strict=True):
        batch = world.batch(name, range(size), [index % len(PROMPTS) for index in range(size)] if not array else None)
        made[name] = batch[array] if array else batch
    return made


def scores(batch: Mapping[str, Any], metrics: Mapping[str, tuple[Sequence[str], Mapping[str, Any]]]) -> Iterator[Step]:
    """Score a batch by metrics: what they are called here, with their arrays and the settings of `score`."""
    for name, (reads, settings) in metrics.items():
        found = optimist.score({array: batch[array] for array in reads}, **settings)
        yield f"score {name}", words.estimate(found)


def contrasts(sets: Mapping[str, Any], **settings: Any) -> Iterator[Step]:
    """Contrast sets of samples, each read from a file."""
    with _files(sets) as files:
        found = optimist.contrast(files, **settings)
    for name, one in found.estimates.items():
        yield f"estimate of {name}", words.estimate(one)
    for one in found.between:
        yield f"contrast of {one.generator} and {one.against}", words.contrast(one)


def blends(sets: Mapping[str, Any], **settings: Any) -> Iterator[Step]:
    """The best mixture of sets of samples."""
    yield "mixture", words.mixture(optimist.mixture(sets, **settings))


@contextmanager
def _files(sets: Mapping[str, Any]) -> Generator[dict[str, Path]]:
    with tempfile.TemporaryDirectory() as place:
        files = {name: Path(place) / f"{name}.npy" for name in sets}
        for name, file in files.items():
            np.save(file, sets[name])
        yield files


def run(world: World, **settings: Any) -> Iterator[Step]:
    """`optimist.run`, whose functions are given seeds."""
    drawn: list[Step] = []
    numbers = itertools.count(1)

    def sampled(name: str) -> Callable[[int, int], Any]:
        def sample(size: int, seed: int) -> Any:
            drawn.append((f"pick {next(numbers)}", {"generator": name, "size": size, "seed": seed}))
            return world.batch(name, [(seed + row) % ROWS for row in range(size)])["features"]

        return sample

    report = optimist.run({name: sampled(name) for name in GENERATORS}, progress=False, **settings)
    yield from drawn
    yield from words.report(report, place="at the end")


def compared(world: World, **settings: Any) -> Iterator[Step]:
    """`optimist.compare` of samples in memory, which a function embeds."""
    seen: list[str] = []

    def embed(batch: Sequence[str]) -> Any:
        seen.extend(batch)
        where = [text.split() for text in batch]
        rows = [
            world.real()[int(index)] if name == "real" else world.batch(name, [int(index)])["features"][0]
            for name, index in where
        ]
        return np.stack(rows)

    sets = {name: [f"{name} {index}" for index in range(90)] for name in (*GENERATORS, "real")}
    real = sets.pop("real")
    with tempfile.TemporaryDirectory() as cache:
        embedder = Function("of words", world.width, embed)
        found = optimist.compare(sets, embed=embedder, reference=real, cache=cache, progress=False, **settings)
    yield "embedded", {"samples": seen}
    yield from words.report(found.report, place="at the end")


@dataclass(frozen=True)
class Made:
    """Anything else in memory."""

    steps: Callable[[], Iterator[Step]]
    world: World = field(default_factory=lambda: World(8))


def several(world: World) -> Iterator[Step]:
    """`score` by several metrics at once."""
    metrics = [
        FID(reference=world.real()),
        InceptionScore(),
        RKE(kernel=Gaussian(2.0, features=16)),
        Vendi(kernel=Gaussian(2.0, features=16)),
        KID(reference=world.real()),
        Mean(reads="values", label="level"),
    ]
    for label, found in optimist.score(world.batch("b", range(70)), metrics).items():
        yield f"score {label}", words.estimate(found)
