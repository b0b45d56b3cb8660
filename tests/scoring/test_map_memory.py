"""What a scorer keeps: dropped where it may keep little, made again bit for bit, and equal references are one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from optimist.estimation import stored
from optimist.estimation.stored import question_of, stored_reference, unpack_kernels
from optimist.metrics import implementations
from optimist.metrics.feature_maps import GaussianFourier, Nystrom
from optimist.metrics.fid.reference import FrechetReference
from optimist.records import LogEntry
from optimist.scoring.cached import CachedStatistic, Step
from optimist.scoring.experiments import ReferenceCache, bytes_of
from optimist.scoring.fairness import SHORT
from optimist.scoring.scorer import evict_beyond
from optimist.scoring.tasks import GeneratorTask
from optimist.store import EmbeddedRedis, Store
from optimist_client import tensors
from optimist_client.metrics import FID, KID, MMD, Gaussian, Metric
from optimist_client.models import Experiment
from tests.support.configs import config_of, experiment_of
from tests.support.made import Made, estimates_by, quiet, scored, scoring, scoring_at, settled, until

DIMENSION, FEATURES = 64, 200
MAP = DIMENSION * FEATURES * 8
GAUSSIAN = {"name": "gaussian", "sigma": 8.0, "features": FEATURES}
PAIRS = {"prompt_dimension": 3, "prompt_kernel": {"sigma": 1.0}, "prompts": ["p"]}
KINDS: dict[str, dict[str, Any]] = {
    **{f"rke-{seed}": {"metric": "rke", "kernel": {**GAUSSIAN, "seed": seed}} for seed in range(4)},
    "vendi": {"metric": "vendi", "kernel": {**GAUSSIAN, "sigma": "median"}},
    "nystrom": {"metric": "vendi", "kernel": {"name": "nystrom", "sigma": "median", "features": 30}},
    "pairs": {"metric": "conditional-vendi", "kernel": GAUSSIAN, **PAIRS},
    "fid-a": {},
    "fid-b": {},
}


MAPS = GaussianFourier, Nystrom, FrechetReference


def alive(*kinds: type) -> set[int]:
    """What takes the memory, by identity."""
    gc.collect()
    return {id(found) for found in gc.get_objects() if type(found) in kinds}


async def tell(made: Made, turn: int, rows: int) -> None:
    rng = np.random.default_rng((turn, len(made.name)))
    columns = made.experiment.columns.items()
    await made.tell(0, {name: rng.standard_normal((rows, width)) for name, width in columns})


async def estimates_of_the_whole_log(made: Made) -> dict[int, str]:
    """By position, as they are stored, by one bound that is never dropped."""
    text = await made.store.config(made.name)
    assert text is not None
    experiment, reference = Experiment.model_validate_json(text), None
    if (name := made.config.metric.setting("reference")) is not None:
        stored = await made.store.references.get(name)
        assert stored is not None
        reference = stored_reference(stored[1])
    question, fitted = question_of(experiment, reference), await made.fitted()
    if fitted is not None:
        question = unpack_kernels(question, fitted)
    return await estimates_by(question.bound_for(experiment.columns), made, clusters=question.counts)


@pytest.mark.long
@pytest.mark.parametrize("warm_bytes", [0, 3 * MAP, None])
async def test_maps_are_dropped_and_made_again_bit_for_bit(make, server: EmbeddedRedis, warm_bytes: int | None):
    """One experiment after the other, several times round, and then all of them at once."""
    all_made: dict[str, Made] = {}
    for name, config in KINDS.items():
        dimension = {"dimension": DIMENSION} if "kernel" in config else {}
        all_made[name] = await make(name, 1, keep_log=True, rescore_growth=0.1, **dimension, **config)
    before, statistics = alive(*MAPS), alive(CachedStatistic)
    published: dict[str, dict[int, str]] = {name: {} for name in all_made}
    async with scoring_at(server, warm_bytes) as scorer:
        for turn in range(4):
            for name, made in all_made.items():
                # 260 fix a bandwidth; ten times as many outgrow a snapshot in 4 dimensions.
                await tell(made, turn, (40 if turn else 260) * (10 if name.startswith("fid") else 1))
                if turn < 3:
                    await scored(made)
                    await quiet(scorer)
                    cached = scorer._experiments.cached
                    assert (name, made.label) in cached, "the latest is kept"
                    if warm_bytes is None:
                        continue
                    assert scorer._experiments.bytes <= max(warm_bytes, 3 * MAP)  # pairs alone have two maps' worth
                    assert len(cached) == 1 or sum(record.bytes for record in scorer._tasks.values()) <= warm_bytes
            for name, made in all_made.items():
                [state] = (await scored(made)).generators
                assert state.primary.estimate is not None
                published[name][state.primary.estimate_seq] = state.primary.estimate
                assert (state.primary.snapshot_seq > 0) == name.startswith("fid")
            await quiet(scorer)
            warm = sum(record.bytes > 0 for record in scorer._tasks.values())
            assert len(alive(CachedStatistic) - statistics) == warm
            assert warm == {0: 1, None: len(KINDS)}.get(warm_bytes, warm)
        # Conditional-Vendi has three maps.
        most = {0: 3, None: 4 + 1 + 1 + 3 + 1}.get(warm_bytes, 6)
        assert len(alive(*MAPS) - before) <= most
        if warm_bytes is None:
            assert len(alive(*MAPS) - before) == most, "equal references are one"
            assert len(scorer._experiments.cached) == len(KINDS)
        assert sum(record.is_held for record in scorer._tasks.values()) == len(KINDS), "its claims stay with it"
    for name, made in all_made.items():
        assert len(published[name]) >= 3
        assert published[name].items() <= (await estimates_of_the_whole_log(made)).items()


async def test_a_map_that_is_shared_stays_while_another_generator_is_warm(make, server: EmbeddedRedis):
    """What was used longest ago goes first: the other experiment's statistic and map; then this one's, the map last."""
    other = await make("other", 1, metric="rke", dimension=DIMENSION, kernel=GAUSSIAN)
    made = await make("x", 2, metric="rke", dimension=DIMENSION, kernel=GAUSSIAN)
    async with scoring_at(server) as scorer:
        for one, generator in ((other, 0), (made, 1), (made, 0)):
            await one.tell(generator, {"features": np.ones((3, DIMENSION))})
            await scored(one)
            await quiet(scorer)
        records, experiments = scorer._tasks, scorer._experiments
        each, room = records["x", 0, "rke"].bytes, records["x", 0, "rke"].room
        assert experiments.bytes == 2 * MAP
        for limit, cached, maps in (
            (3 * each + 2 * MAP, [("other", 0), ("x", 0), ("x", 1)], [("other", "rke"), ("x", "rke")]),
            (3 * each + 2 * MAP - 1, [("x", 0), ("x", 1)], [("other", "rke"), ("x", "rke")]),
            (2 * each + MAP, [("x", 0), ("x", 1)], [("x", "rke")]),
            (each + MAP, [("x", 0)], [("x", "rke")]),
            (MAP, [], [("x", "rke")]),
            (MAP - 1, [], []),
        ):
            evict_beyond(records.values(), experiments, limit)
            assert sorted(one.address for one in records.values() if one.bytes > 0) == cached
            assert sorted(experiments.cached) == maps
        assert experiments.bytes == 0
        assert records["x", 0, "rke"].room == room > 0, "its log may still have as many bytes as its statistic had"
        experiment = records["x", 0, "rke"].experiment
        scorer._warm_bytes = 10 * MAP
        await made.tell_many(0, 1, 40)
        await scored(made)
        await quiet(scorer)
        assert records["x", 0, "rke"].experiment is experiment, "what it has published is known"
        assert experiments.cached == [("x", "rke")]


async def test_no_estimate_that_stands_is_made_again(make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch):
    made = await make(generators=1)
    positions: list[int] = []
    apply = CachedStatistic.apply

    def noted(cached: CachedStatistic, entries: Sequence[LogEntry], newest: int) -> Step:
        step = apply(cached, entries, newest)
        positions.extend([] if step.scored is None else [step.scored.seq])
        return step

    monkeypatch.setattr(CachedStatistic, "apply", noted)
    async with scoring_at(server, 0) as scorer:
        for turn in range(4):
            await made.tell_many(0, 6, seed=turn)
            await settled(made)
            await quiet(scorer)
            scorer._tasks["x", 0, made.label].evict()
            scorer._schedule(scorer._tasks["x", 0, made.label])
            await quiet(scorer)
            assert scorer._tasks["x", 0, made.label].bytes > 0
            scorer._tasks["x", 0, made.label].evict()
    assert len(positions) >= 4
    assert len(positions) == len(set(positions))


async def test_experiments_that_fail_are_counted_too(make, server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object) -> None:
        raise ArithmeticError("no estimate")

    monkeypatch.setattr(CachedStatistic, "apply", fails)
    all_made = [
        await make(f"x{seed}", 1, metric="rke", dimension=DIMENSION, kernel={**GAUSSIAN, "seed": seed})
        for seed in range(4)
    ]
    async with scoring_at(server, 0) as scorer:
        for made in all_made:
            await tell(made, 0, 4)

        async def failed() -> bool:
            states = [await made.store.state(made.name) for made in all_made]
            return all(stored.generators[0].primary.scoring_error is not None for stored in states)

        await until(failed)
        await quiet(scorer)
        assert len(scorer._experiments.cached) <= 1


def test_bytes_are_those_of_all_tensors_each_once():
    for config, numbers in (
        ({"metric": "rke", "kernel": GAUSSIAN}, 5 * FEATURES),
        ({"metric": "vendi", "kernel": {"name": "cosine"}}, 0),
        ({"metric": "conditional-vendi", "kernel": GAUSSIAN, **PAIRS}, 2 * (5 + 3) * FEATURES),
        ({"metric": "is"}, 0),
    ):
        made = experiment_of(config_of(name="x", generators=["a"], dimension=5, **config))
        bound = question_of(made, None).bound_for(made.columns)
        statistic = bound.statistic()
        if numbers:
            statistic.update(*(torch.ones(2, width) for width in made.columns.values()))
        assert bytes_of(bound) == 8 * numbers, "statistics are counted apart"
    reference = FrechetReference(np.zeros(6), np.eye(6))
    before = reference.bytes
    assert before == 8 * (6 + 36 + 6)  # mean, factor and eigenvalues
    assert reference.root.nbytes + before == reference.bytes


@pytest.mark.parametrize(("features", "is_long"), [(64, False), (8192, True)])
async def test_a_first_turn_that_draws_a_large_map_is_not_a_short_one(make, store: Store, features: int, is_long: bool):
    """Otherwise such turns take all threads, also the one that is kept free for short turns of others."""
    await make("x", 1, metric="rke", dimension=1300, kernel={"name": "gaussian", "sigma": 40.0, "features": features})
    async with scoring(store) as scorer:
        expected = await scorer._experiments.expected_seconds(GeneratorTask("x", 0, "rke"))
    assert (expected >= SHORT) == is_long


def references() -> set[int]:
    """Those that this process has."""
    gc.collect()
    return {id(found) for found in gc.get_objects() if type(found) is FrechetReference}


async def told(experiments: Sequence[Made], turn: int) -> None:
    """Batches to all of them, and their estimates."""
    for made in experiments:
        for generator in (0, 1):
            await made.tell_many(generator, 3, seed=turn)
    for made in experiments:
        await settled(made)


@pytest.mark.long
async def test_experiments_share_a_reference_which_goes_with_the_last_of_them(
    make, store: Store, server: EmbeddedRedis
):
    normal = {"mean": np.zeros(4), "covariance": np.eye(4)}
    await store.references.put("same", "{}", tensors.encode(normal))
    await store.references.put("other", "{}", tensors.encode({**normal, "mean": np.ones(4)}))
    sharing = [await make("a"), await make("b"), await make("c", reference="same")]
    alone = await make("d", reference="other")
    before = references()

    async def left(count: int) -> bool:
        return len(references() - before) == count

    async with scoring_at(server):
        for turn in (0, 1):
            await told([*sharing, alone], turn)
            assert await left(2)
        scores = [(await settled(made)).generators[0].primary.estimate for made in sharing]
        assert len(set(scores)) == 1
        assert (await settled(alone)).generators[0].primary.estimate not in scores
        await store.delete_experiment("d")
        await until(lambda: left(1))
        for name in ("a", "c"):
            await store.delete_experiment(name)
        await told([sharing[1]], 2)
        assert await left(1), "one that is left uses it still"
        await store.delete_experiment("b")
        await until(lambda: left(0))


async def test_metrics_share_what_they_make_of_equal_data(store: Store, monkeypatch: pytest.MonkeyPatch):
    """Whatever they are called and read; each makes its own, once, however many ask for it at a time."""
    rows = np.random.default_rng(0).standard_normal((40, 4))
    real = {"mean": rows.mean(0), "covariance": np.cov(rows, rowvar=False), "features": rows}
    for name in ("one", "another"):
        await store.references.put(name, "{}", tensors.encode(real))
    made: list[str] = []
    make = implementations.implementation

    def noted(name: str) -> Any:
        made.append(name)
        return make(name)

    monkeypatch.setattr(implementations, "implementation", noted)

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    shared = ReferenceCache(store, in_thread, torch.device("cpu"))
    smooth, sharp = Gaussian(2.0, features=8), Gaussian(1.0, features=8)
    wanted: list[Metric] = [
        FID(reference="one"),
        FID(reference="another", label="dino", reads="dinov2"),
        KID(reference="one"),
        KID(reference="another"),
        MMD(reference="one", kernel=smooth),
        MMD(reference="another", kernel=smooth, reads="clip"),
        MMD(reference="one", kernel=sharp),
    ]
    found = await asyncio.gather(*(shared.get("x", metric) for metric in wanted))
    assert sorted(made) == ["fid", "kid", "mmd", "mmd"]
    assert [found.index(one) for one in found] == [0, 0, 2, 2, 4, 4, 6]
    assert shared.bytes == sum(one.bytes for one in {id(one): one for one in found}.values()) > 40 * 4 * 8
    del found
    await asyncio.to_thread(gc.collect)  # the loop and its threads keep their last result until the next one
    assert shared.bytes == 0
    with pytest.raises(ValueError, match="'gone' is gone"):
        await shared.get("x", FID(reference="gone"))


async def test_a_reference_without_rows_is_refused_where_they_are_needed(store: Store):
    await store.references.put("moments", "{}", tensors.encode({"mean": np.zeros(4), "covariance": np.eye(4)}))
    found = await store.references.get("moments")
    assert found is not None
    data = stored.stored_reference(found[1])
    with pytest.raises(ValueError, match="rows"):
        implementations.make_reference(KID(reference="moments"), data)
