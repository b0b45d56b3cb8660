"""The experiments that two checkouts are compared on, by name. They are small: all together take a few minutes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import laboratory
import memory
import numpy as np
import served
from memory import Asked, Made
from served import LEASE, Served, routes
from world import CLASSES, PROMPT_WIDTH, PROMPTS, World

from optimist_client.metrics import (
    CMMD,
    FID,
    KEN,
    KID,
    MMD,
    RKE,
    ConditionalVendi,
    Cosine,
    Coverage,
    Density,
    Gaussian,
    InceptionScore,
    InformationVendi,
    Mean,
    Metric,
    Nystrom,
    Precision,
    Vendi,
    WinRate,
)

W4, W8, W16, W32 = (World(width) for width in (4, 8, 16, 32))
INDEPENDENT = World(8, shared=0.0)
REAL, MOMENTS = W8.real(), W8.moments()
NARROW, WIDE, OPEN = Gaussian(2.0, features=8), Gaussian(2.0, features=128), Gaussian("median", features=16)
MIDDLE = Gaussian(2.0, features=32)
EIGHT: dict[str, Any] = {"dimension": 8}
PAIR: dict[str, Any] = {"prompt_dimension": PROMPT_WIDTH, "prompt_kernel": Gaussian(1.5, features=8), **EIGHT}
OF_PAIRS = ("features", "prompts")
PRICES = {"a": 1.0, "b": 4.0, "c": 0.5}
EVERY: list[Metric] = [
    InceptionScore(dimension=CLASSES),
    RKE(kernel=NARROW),
    Vendi(kernel=MIDDLE, order=2.0, label="vendi-2"),
    Vendi(kernel=NARROW, order=0.5, label="vendi-half"),
    KID(reference=REAL),
    MMD(reference=REAL, kernel=OPEN),
    CMMD(reference=REAL, kernel=Gaussian(10.0, features=16)),
    Precision(reference=REAL),
    Density(reference=REAL, neighbours=3),
    Coverage(reference=REAL, at=60),
    KEN(reference=REAL, kernel=OPEN),
    Mean(reads="values", label="level"),
    FID(reads="other", reference=W8.real_others()),
]
"""Watched metrics."""
READS_EVERY = ("features", "probabilities", "values", "other")


def fid(world: World = W8, rounds: int = 40, **settings: Any) -> Asked:
    """FID in memory."""
    return Asked(world, {"metric": FID(reference=world.real()), **settings}, rounds)


def kernel(metric: Metric, rounds: int = 40, **settings: Any) -> Asked:
    """A score of one kernel in memory; an open kernel has its rows after a third of the rounds."""
    is_open = any(getattr(one, "sigma", None) == "median" for one in (metric.setting("kernel"),))
    return Asked(W8, {"metric": metric, "batch_size": 15 if is_open else 5, **settings}, rounds)


def of(reads: str | tuple[str, ...], metric: Metric, rounds: int = 40, **settings: Any) -> Asked:
    """Any metric in memory that reads these arrays."""
    return Asked(W8, {"metric": metric, **settings}, rounds, (reads,) if isinstance(reads, str) else reads)


def on_service(metric: Metric | str, how: Any = served.plain, **settings: Any) -> Served:
    """Any metric on a service."""
    reads, restarts = settings.pop("reads", ("features",)), settings.pop("restarts", False)
    return Served(settings.pop("world", W8), {"metric": metric, **settings}, how, reads, restarts=restarts)


def simulated(*given: Any, **settings: Any) -> Made:
    """Policies in the laboratory."""
    return Made(partial(laboratory.simulated, W8, *given, **settings))


def routed(*policies: str, **settings: Any) -> Made:
    """Routing policies in the laboratory."""
    return Made(partial(laboratory.routed, W8, policies, **settings))


OMEGAS = np.random.default_rng(1).standard_normal((8, 9))
LANDMARKS = W8.batch("d", range(12))["features"]
SETS = memory.samples(W8)
BY_PROMPT = Gaussian(1.5, features=8)
CONDITIONAL = ConditionalVendi(kernel=NARROW, prompt_kernel=BY_PROMPT)
INFORMATION = InformationVendi(kernel=NARROW, prompt_kernel=BY_PROMPT)
LISTED: dict[str, Any] = {"prompts": PROMPTS, "prompts_are": "list", "batch_size": 4}
EXACT = {"sigma": "median", "features": "exact"}
SCORES = {
    "exact vendi": (("features",), {"metric": "vendi", "kernel": EXACT}),
    "exact vendi of order 2": (("features",), {"metric": "vendi", "order": 2.0, "kernel": {**EXACT, "sigma": 2.0}}),
    "rke by frequencies": (("features",), {"metric": "rke", "kernel": {"omegas": OMEGAS}}),
    "rke by landmarks": (
        ("features",),
        {"metric": "rke", "kernel": {"name": "nystrom", "sigma": 2.0, "landmarks": LANDMARKS}},
    ),
    "fid theorem": (("features",), {"metric": "fid", "reference": MOMENTS, "bound": "theorem", "tau": 2.0}),
    "conditional, fitted": (
        OF_PAIRS,
        {"metric": ConditionalVendi(kernel=MIDDLE, prompt_kernel=Gaussian("median", features=32))},
    ),
}
IN_MEMORY: dict[str, Asked | Made] = {
    "fid past its width": fid(W16, 45, batch_size=4),
    "fid below its width": fid(W32, 18, batch_size=3),
    "fid unpaired ucb": fid(paired=False, policy="ucb"),
    "fid without indices": Asked(INDEPENDENT, {"metric": FID(reference=REAL)}, has_indices=False),
    "fid thompson": fid(policy="thompson", seed=5),
    "fid greedy": fid(policy="greedy"),
    "fid uniform, moments": fid(policy="uniform", metric=FID(reference=MOMENTS), tolerance="2%"),
    "fid-ucb": fid(W8, 50, policy="fid-ucb"),
    "fd-ucb": fid(W8, 50, policy="fd-ucb"),
    "naive-ucb": fid(policy="naive-ucb"),
    "fid theorem with options": fid(
        bound="theorem", bound_options={"sigma2": 1.5, "tau": 3.0, "mean_gap": 0.5}, delta=0.1
    ),
    "fid authors with options": fid(bound="authors", bound_options={"M": 3.0, "kappa": 1.2}, seed=2),
    "fid with costs, saved": Asked(INDEPENDENT, {"metric": FID(reference=REAL), "costs": PRICES}, saved_after=15),
    "fid, four generators": Asked(W4, {"metric": FID(reference=W4.real()), "tolerance": 0.3}, 70, generators=[*"abcd"]),
    "is": of("probabilities", InceptionScore(), policy="top-two"),
    "is-ucb": of("probabilities", InceptionScore(), policy="is-ucb"),
    "is naive": of("probabilities", InceptionScore(), bound="naive", paired=False),
    "rke past its width": kernel(RKE(kernel=NARROW)),
    "rke below its width": kernel(RKE(kernel=WIDE)),
    "rke cosine": kernel(RKE(kernel=Cosine()), policy="thompson"),
    "rke nystrom": kernel(RKE(kernel=Nystrom(2.0, features=12))),
    "rke median": kernel(RKE(kernel=OPEN), 30, policy="ucb"),
    "rke-ucb": kernel(RKE(kernel=NARROW), policy="rke-ucb"),
    "rke on a list of prompts": kernel(RKE(kernel=NARROW), **LISTED),
    "vendi past its width": kernel(Vendi(kernel=NARROW)),
    "vendi below its width": kernel(Vendi(kernel=WIDE)),
    "vendi of order 2": kernel(Vendi(kernel=MIDDLE, order=2.0), policy="greedy"),
    "vendi of order 0.5": kernel(Vendi(kernel=MIDDLE, order=0.5)),
    "vendi of order 3": kernel(Vendi(kernel=NARROW, order=3.0)),
    "vendi of order infinity": kernel(Vendi(kernel=MIDDLE, order=math.inf)),
    "vendi truncated": kernel(Vendi(kernel=MIDDLE, truncation=6)),
    "vendi cosine, every batch": kernel(Vendi(kernel=Cosine()), rescore_growth=0.0),
    "vendi nystrom median": kernel(Vendi(kernel=Nystrom("median", features=12)), 30),
    "vendi-ucb": kernel(Vendi(kernel=MIDDLE), policy="vendi-ucb"),
    "conditional-vendi": of(
        OF_PAIRS, ConditionalVendi(kernel=MIDDLE, prompt_kernel=Gaussian(1.5, features=32)), paired=False
    ),
    "conditional-vendi on a list": of(OF_PAIRS, CONDITIONAL.model_copy(update={"order": 2.0}), **LISTED),
    "information-vendi": of(OF_PAIRS, INFORMATION.model_copy(update={"order": 1.5})),
    "kid": of("features", KID(reference=REAL)),
    "mmd median": of("features", MMD(reference=REAL, kernel=OPEN), policy="ucb"),
    "mmd cosine, normalised": of("features", MMD(reference=REAL, kernel=Cosine(), normalise=True, factor=10.0)),
    "cmmd": of("features", CMMD(reference=REAL, kernel=Gaussian(10.0, features=32))),
    "precision": of("features", Precision(reference=REAL, neighbours=3)),
    "density": of("features", Density(reference=REAL), paired=False),
    "coverage": of("features", Coverage(reference=REAL, at=50), 50),
    "mean": of("values", Mean(), policy="thompson"),
    "mean empirical-bernstein": of(
        "values", Mean(range=(0.0, 1.0), higher_is_better=False), bound="empirical-bernstein"
    ),
    "mean betting": of("values", Mean(range=(0.0, 1.0)), bound="betting"),
    "win-rate": of("values", WinRate(), tolerance="1%"),
    "fid, everything watched": of(READS_EVERY, FID(reference=REAL), 30, watch=EVERY),
    "pairs, watched": of(OF_PAIRS, CONDITIONAL, 25, watch=[INFORMATION, KID(reference=REAL)]),
    "mixture ogd": kernel(RKE(kernel=NARROW), goal="mixture", tolerance="3%"),
    "mixture uniform, vendi": kernel(Vendi(kernel=NARROW), goal="mixture", policy="uniform"),
    "mixture-ucb-cab": kernel(RKE(kernel=NARROW), 30, goal="mixture", policy="mixture-ucb-cab"),
    "mixture-ucb-ogd": kernel(MMD(reference=REAL, kernel=MIDDLE), 30, goal="mixture", policy="mixture-ucb-ogd"),
    "mixture-greedy": fid(rounds=30, goal="mixture", policy="mixture-greedy", seed=2),
    "mixture unpaired, vendi of order 3": kernel(Vendi(kernel=MIDDLE, order=3.0), goal="mixture", paired=False),
    "scores": Made(partial(memory.scores, memory.samples(W8, array=None)["b"], SCORES)),
    "scores of several metrics": Made(partial(memory.several, W8)),
    "contrasts of files": Made(partial(memory.contrasts, SETS, metric=FID(reference=REAL), paired=True)),
    "contrasts, rke, not paired": Made(partial(memory.contrasts, SETS, metric=RKE(kernel=OPEN))),
    "blend of sets by fid": Made(partial(memory.blends, SETS, metric="fid", reference=REAL, paired=True)),
    "blend of sets by vendi": Made(partial(memory.blends, SETS, metric=Vendi(kernel=WIDE, order=0.5))),
    "run": Made(partial(memory.run, W8, metric="rke", kernel=NARROW.model_dump(), costs=PRICES, max_cost=300.0)),
    "compare": Made(partial(memory.compared, W8, metric="fid", watch="kid,rke", budget=160)),
    "simulated best": simulated(metric="fid", reference=REAL, policies="ucb,top-two,fid-ucb,uniform"),
    "simulated best, paired": simulated(
        (100,) * 3, metric=RKE(kernel=OPEN), policies="top-two,thompson:delta=0.1", paired=True, stop=True, rounds=40
    ),
    "simulated best, watched": simulated(
        metric=FID(reference=REAL),
        watch=[Mean(reads="values", label="level"), InceptionScore()],
        policies="ucb:warmup=3,greedy",
        tolerance="2%",
        shuffle=False,
    ),
    "simulated mixture": simulated(
        metric=Vendi(kernel=NARROW, order=2.0),
        goal="mixture",
        policies="ogd,mixture-greedy,uniform",
        tolerance="5%",
        stop=True,
    ),
    "simulated mixture by fid": simulated(metric="fid", reference=MOMENTS, goal="mixture", policies="ogd"),
    "simulated routing": routed("optimistic", "rff-ucb", "uniform", "best-single", "pak-ucb"),
    "simulated routing, tries": routed("optimistic", "promptwise", price=0.05, tries=3),
    "simulated routing, ceiling": routed("optimistic", "greedy", ceiling=1.5),
    "simulated routing, share": routed("optimistic", "best-single", at_least=0.97),
}
EVERYTHING: dict[str, Any] = {"reference": REAL, "watch": EVERY, "reads": READS_EVERY}
LARGE: dict[str, Any] = {
    "world": W32,
    "reference": W32.real(),
    "batch_size": 120,
    "watch": [RKE(kernel=NARROW), Precision(reference=W32.real())],
}
"""Logs so large that they are replaced by snapshots."""
ON_SERVICE: dict[str, Served] = {
    "snapshots": on_service("fid", **LARGE),
    "snapshots, restarted": on_service("fid", restarts=True, **LARGE),
    "snapshots, retracted": on_service("fid", served.retracted, restarts=True, **LARGE, keep_log=True),
    "served fid, everything watched": on_service("fid", **EVERYTHING),
    "served fid, everything watched, restarted": on_service("fid", restarts=True, **EVERYTHING),
    "served fid, unpaired": on_service("fid", reference=REAL, paired=False, seed=4),
    "served fid-ucb": on_service("fid", reference=MOMENTS, policy="fid-ucb"),
    "served rke, modes": on_service("rke", served.with_modes, kernel=NARROW, **EIGHT),
    "served rke median, restarted": on_service(
        RKE(kernel=OPEN, **EIGHT), batch_size=20, watch=[KEN(reference=REAL)], restarts=True
    ),
    "served vendi-ucb, restarted": on_service(
        "vendi", order=math.inf, kernel=NARROW, policy="vendi-ucb", restarts=True, **EIGHT
    ),
    "served mean until decided": on_service(
        Mean(range=(0.0, 1.0)), bound="betting", stop=True, batch_size=20, tolerance=0.05, reads=("values",)
    ),
    "retracted": on_service("fid", served.retracted, **EVERYTHING),
    "retracted, restarted": on_service("fid", served.retracted, restarts=True, **EVERYTHING),
    "retracted, rke with the log": on_service(
        RKE(kernel=MIDDLE, **EIGHT), served.retracted, keep_log=True, rescore_growth=0.3
    ),
    "late": on_service("fid", served.late, reference=REAL, lease=LEASE),
    "given up": on_service("vendi", served.given_up, kernel=NARROW, **EIGHT),
    "generators changed": on_service(KID(reference=REAL), served.changed, budget=150),
    "costs": on_service("fid", served.priced, world=INDEPENDENT, reference=REAL, costs=PRICES, max_cost=400),
    "costs not weighed": on_service(
        "fid", served.priced, world=INDEPENDENT, reference=REAL, costs=PRICES, max_cost=300, weigh_costs=False
    ),
    "exported": on_service(
        "vendi", served.exported, kernel=MIDDLE, watch=[KID(reference=REAL)], keep_log=True, **EIGHT
    ),
    "exported from its snapshot": on_service("fid", served.exported, **LARGE),
    "prompts": on_service(
        ConditionalVendi(kernel=NARROW, **PAIR),
        prompts=PROMPTS,
        watch=[KID(reference=REAL)],
        reads=OF_PAIRS,
        restarts=True,
    ),
    "list of prompts": on_service("rke", kernel=NARROW, **LISTED, **EIGHT),
    "served mixture": on_service("rke", served.blended, kernel=NARROW, goal="mixture", **EIGHT),
    "served mixture, restarted": on_service(
        "rke", served.blended, kernel=NARROW, goal="mixture", restarts=True, **EIGHT
    ),
    "served mixture-ucb-cab": on_service(
        RKE(kernel=NARROW, **EIGHT), served.blended, goal="mixture", policy="mixture-ucb-cab"
    ),
    "served mixture by fid": on_service(FID(reference=REAL), served.blended, goal="mixture", tolerance=0.5, seed=9),
    "route": routes(metric="mean"),
    "route, median": routes(metric="mean", context_bandwidth="median"),
    "route ucb with costs": routes(metric="mean", policy="ucb", costs=PRICES, price=0.05),
    "route greedy, tries": routes(metric="win-rate", policy="greedy", tries=2, warmup=2, costs=PRICES, price=0.02),
    "route rff-ucb": routes(metric="mean", policy="rff-ucb"),
    "route promptwise": routes(metric="win-rate", policy="promptwise", costs=PRICES, price=0.02),
    "route best-single": routes(metric="mean", policy="best-single"),
    "route uniform": routes(metric="win-rate", policy="uniform", seed=8),
}
EXPERIMENTS: dict[str, Asked | Made | Served] = IN_MEMORY | ON_SERVICE
