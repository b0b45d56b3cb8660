"""Plays simulations: policies in several trials, for each goal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import words
from memory import GENERATORS, samples
from words import Step
from world import World

import optimist
from optimist.routing.gain.outcomes import ScoredPrompts


def simulated(world: World, sizes: tuple[int, ...] = (90, 75, 120), **settings: Any) -> Iterator[Step]:
    """`optimist.simulate` of the features of a world, or with further metrics of all its arrays."""
    sources = samples(world, sizes, None if "watch" in settings else "features")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # trials that end early are wanted, too
        settings = {"rounds": 30, "trials": 2, "seed": 4} | settings
        result = optimist.simulate(sources, **settings)
    yield from words.simulation(result)


def routed(world: World, policies: tuple[str, ...], **settings: Any) -> Iterator[Step]:
    """Routing policies on prompts that every generator has a score on."""
    indices = range(160)
    batches = [world.batch(name, indices) for name in GENERATORS]
    table = np.column_stack([batch["values"][:, 0] for batch in batches])
    costs = np.array([1.0, 4.0, 0.5]) if {"price", "ceiling", "at_least"} & settings.keys() else None
    known = ScoredPrompts.from_table(batches[0]["other"], table, GENERATORS, costs)
    result = optimist.simulate(known, goal="route", policies=policies, rounds=130, trials=2, seed=3, **settings)
    yield from words.routing(result)
