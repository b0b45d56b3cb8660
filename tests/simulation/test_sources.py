"""Where samples come from: files of every kind, exported experiments, Gaussians, the demo's generators."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest
from safetensors.numpy import save_file

from optimist.archive.contents import ArchivedGenerator, ArchivedUnit, Manifest
from optimist.archive.file import ArchiveWriter
from optimist.estimation.question import Question
from optimist.metrics.fid.reference import FrechetReference
from optimist.records import HISTORY, LogEntry
from optimist.simulation import sources
from optimist.simulation.sources import ArraySource, Draw, GaussianSource, Source
from optimist_client import FixError, tensors
from optimist_client.metrics import FID, Gaussian, InceptionScore, Vendi
from tests.support.configs import config_of, experiment_of


def rows(seed: int, n: int = 12, d: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def held(source: Source, tensor: str = "features") -> np.ndarray:
    return first(source, source.samples or 0, Draw(0, 0, "g", shuffle=False), tensor)


def first(source: Source, count: int, draw: Draw, tensor: str = "features") -> np.ndarray:
    taken = source.stream(draw).take(count)
    return taken[tensor]


def test_a_folder_holds_a_file_or_a_folder_for_each_generator(tmp_path: Path):
    np.save(tmp_path / "a.npy", rows(1))
    np.savez(tmp_path / "b.npz", features=rows(2), labels=np.arange(12))
    save_file({"anything": rows(3)}, tmp_path / "c.safetensors")
    arrow.parquet.write_table(
        arrow.table({"label": list(range(12)), "features": rows(4).tolist()}), tmp_path / "d.parquet"
    )
    arrow.parquet.write_table(
        arrow.table({str(column): values for column, values in enumerate(rows(5).T)}), tmp_path / "e.parquet"
    )
    (tmp_path / "f").mkdir()
    for part in range(3):
        np.save(tmp_path / "f" / f"part-{part}.npy", rows(6)[4 * part : 4 * part + 4])
    np.savez(tmp_path / "g.npz", mu=np.zeros(3), sigma=np.eye(3), samples=500)
    np.save(tmp_path / "real.npy", rows(0))
    (tmp_path / "README.md").write_text("no samples")
    found = sources.files(tmp_path, "fid", beside=tmp_path / "real.npy")
    assert list(found) == ["a", "b", "c", "d", "e", "f", "g"]
    for seed, name in enumerate("abcdef", 1):
        np.testing.assert_array_equal(held(found[name]), rows(seed), err_msg=name)
        assert f"{tmp_path / name}" in found[name].origin
    assert isinstance(found["g"], GaussianSource)


def test_a_file_holds_an_array_for_each_generator(tmp_path: Path):
    np.savez(tmp_path / "problem.npz", a=rows(1), b=rows(2), **{"c/mean": np.zeros(3), "c/covariance": np.eye(3)})
    found = sources.files(tmp_path / "problem.npz")
    np.testing.assert_array_equal(held(found["b"]), rows(2))
    assert found["c"].samples is None
    table = arrow.table({"generator": ["y", "x"] * 6, "features": rows(3).tolist()})
    arrow.parquet.write_table(table, tmp_path / "long.parquet")
    found = sources.files(tmp_path / "long.parquet")
    assert list(found) == ["x", "y"]
    np.testing.assert_array_equal(held(found["y"]), rows(3)[::2])


def test_pairs_are_read_from_files_and_folders(tmp_path: Path):
    np.savez(tmp_path / "a.npz", features=rows(1), prompts=rows(2, d=2))
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "b" / "features.npy", rows(3))
    np.save(tmp_path / "b" / "prompts.npy", rows(4, d=2))
    found = sources.files(tmp_path, "conditional-vendi")
    assert [source.widths for source in found.values()] == [{"features": 3, "prompts": 2}] * 2
    np.testing.assert_array_equal(held(found["b"], "prompts"), rows(4, d=2))


@pytest.mark.parametrize("metric", ["mean", "win-rate", {"values": 1}])
def test_arrays_of_one_column_may_be_vectors(tmp_path: Path, metric: Any):
    values = {"a": rows(1, d=1), "b": rows(2, d=1)}
    np.savez(tmp_path / "all.npz", **{name: array[:, 0] for name, array in values.items()})
    (tmp_path / "each").mkdir()
    for name, array in values.items():
        np.save(tmp_path / "each" / f"{name}.npy", array[:, 0])
    for place in ("all.npz", "each"):
        found = sources.files(tmp_path / place, metric)
        for name, array in values.items():
            np.testing.assert_array_equal(held(found[name], "values"), array)


@pytest.mark.parametrize(
    ("made", "metric", "message"),
    [
        ({"a.npz": {"x": rows(1), "y": rows(2)}}, "fid", r"a.npz: expected one array, or one called 'features'; found"),
        ({"a.npz": {"x": np.zeros(3)}}, "fid", r"a.npz: features: expected shape \(n, d\), found \(3,\)"),
        ({"a.npz": {"mean": np.zeros(3), "covariance": -np.eye(3)}}, "fid", "covariance: expected a positive"),
        ({"a.npz": {"x": rows(1)}, "a.npy": rows(1)}, "fid", "expected distinct generator names, found 'a' in"),
    ],
)
def test_files_that_are_not_as_expected(tmp_path: Path, made: dict[str, Any], metric: str, message: str):
    for name, arrays in made.items():
        np.savez(tmp_path / name, **arrays) if isinstance(arrays, dict) else np.save(tmp_path / name, arrays)
    with pytest.raises(FixError, match=message):
        sources.files(tmp_path, metric)


def test_parts_of_unequal_widths_and_lists_of_unequal_lengths(tmp_path: Path):
    (tmp_path / "a").mkdir()
    np.save(tmp_path / "a" / "1.npy", rows(1))
    np.save(tmp_path / "a" / "2.npy", rows(1, d=4))
    with pytest.raises(FixError, match=r"a: features: expected parts with rows of one shape, found \(3,\) and \(4,\)"):
        sources.files(tmp_path)
    arrow.parquet.write_table(arrow.table({"features": [[1.0, 2.0], [1.0]]}), tmp_path / "short.parquet")
    with pytest.raises(FixError, match="expected lists of one length, found 1 to 2"):
        sources.files(tmp_path / "short.parquet")
    arrow.parquet.write_table(arrow.table({"features": [[1.0, 2.0], None]}), tmp_path / "gap.parquet")
    with pytest.raises(FixError, match="expected a value in every row, found 1 missing"):
        sources.files(tmp_path / "gap.parquet")


def test_samples_are_drawn_without_replacement_in_an_order_of_seed_trial_and_name():
    source = ArraySource({"features": np.arange(40.0)[:, None]})

    def drawn(draw: Draw) -> list[float]:
        stream, found = source.stream(draw), []
        while (batch := stream.take(7)) is not None:
            found += batch["features"][:, 0].tolist()
        return found

    first = drawn(Draw(1, 2, "g"))
    assert drawn(Draw(1, 2, "g")) == first
    assert len(first) == len(set(first)) == 35
    others = [drawn(draw) for draw in (Draw(2, 2, "g"), Draw(1, 3, "g"), Draw(1, 2, "h"), Draw(1, None, "g"))]
    assert all(other != first for other in others)
    assert drawn(Draw(1, 2, "g", shuffle=False)) == list(range(35))


def test_a_gaussian_has_the_moments_and_the_distance_it_is_given():
    covariance = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]])
    source = pickle.loads(pickle.dumps(GaussianSource(np.array([1.0, 0.0, 2.0]), covariance)))
    made = source.stream(Draw(0, 0, "g")).take(40_000)["features"]
    np.testing.assert_allclose(made.mean(axis=0), source.mean, atol=0.03)
    np.testing.assert_allclose(np.cov(made, rowvar=False), covariance, atol=0.05)
    reference = FrechetReference(np.zeros(3), np.diag([1.0, 4.0, 1.0]))
    roots = np.linalg.eigvals(covariance @ np.diag([1.0, 4.0, 1.0])).real.clip(0)
    expected = 5.0 + 3.0 + 6.0 - 2.0 * np.sqrt(roots).sum()
    assert source.exact(Question(FID(reference=reference))) == pytest.approx(expected, rel=1e-9)
    assert source.exact(Question(Vendi(kernel=Gaussian(sigma=1.0)))) is None


@pytest.mark.long
def test_the_demo_s_generators_are_sampled_as_they_are_drawn(digits, digits_cache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_CACHE", str(digits_cache))
    problem = sources.digits("fid")
    assert list(problem.sources) == list(digits.family)
    assert problem.settings["metric"].reference.samples == len(digits.images)
    assert problem.aligned
    source = problem.sources["vae-1.3"]
    whole = source.stream(Draw(0, 0, "vae-1.3")).take(1100)
    stream = source.stream(Draw(0, 0, "vae-1.3"))
    parts = [(stream.take(size) or {})["features"] for size in (3, 600, 497)]
    np.testing.assert_array_equal(np.concatenate(parts), (whole or {})["features"])
    assert len(np.unique(np.concatenate(parts), axis=0)) == 1100


@pytest.mark.long
def test_prompted_generators_get_the_same_prompts(digits, digits_cache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_CACHE", str(digits_cache))
    problem = sources.digits("information-vendi")
    prompts = [
        (source.stream(Draw(3, 1, name)).take(40) or {})["prompts"]
        for name, source in list(problem.sources.items())[:2]
    ]
    np.testing.assert_array_equal(*prompts)
    other = (next(iter(problem.sources.values())).stream(Draw(3, 2, "x")).take(40) or {})["prompts"]
    assert not np.array_equal(other, prompts[0])


@pytest.mark.long
def test_a_paired_draw_is_that_of_every_generator(digits, digits_cache, monkeypatch: pytest.MonkeyPatch):
    """Row i has the same seed in every generator, over the boundaries of blocks and for any sizes of batches."""
    monkeypatch.setenv("OPTIMIST_CACHE", str(digits_cache))
    covariance = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for source in (
        sources.digits("fid").sources["vae-1.3"],
        sources.digits("information-vendi").sources["class-gmm-4"],
        GaussianSource(np.zeros(3), covariance),
        ArraySource({"features": rows(1, n=1200)}),
    ):

        def drawn(name: str, paired: bool, *sizes: int, source: Source = source, trial: int = 0) -> np.ndarray:
            stream = source.stream(Draw(0, trial, name, paired=paired))
            return np.concatenate([(stream.take(size) or {})["features"] for size in sizes])

        np.testing.assert_array_equal(drawn("a", True, 600), drawn("b", True, 30, 495, 75))
        assert not np.array_equal(drawn("a", False, 600), drawn("b", False, 600))
        assert not np.array_equal(drawn("a", True, 600), drawn("a", True, 600, trial=1))


def test_paired_gaussians_have_common_noise_whatever_their_moments():
    draw, root = Draw(0, 0, "g", paired=True), np.array([[1.0, 0.0], [2.0, 0.5]])
    plain, made = GaussianSource(np.zeros(2), np.eye(2)), GaussianSource(np.ones(2), root @ root.T)
    noise, found = (first(source, 300, draw) for source in (plain, made))
    solved, residuals, *_ = np.linalg.lstsq(np.column_stack([noise, np.ones(300)]), found, rcond=None)
    np.testing.assert_allclose(residuals, 0.0, atol=1e-18)
    np.testing.assert_allclose(solved[:2].T @ solved[:2], root @ root.T)


def test_aligned_sources_of_unequal_lengths_share_the_rows_that_both_have():
    lengths = (7, 20, 50)
    made = [ArraySource({"features": np.arange(float(n))[:, None]}, ends=lengths) for n in lengths]
    orders = [first(source, source.samples, Draw(3, 1, "g", paired=True))[:, 0] for source in made]
    for order, longer in pairwise(orders):
        np.testing.assert_array_equal(longer[: len(order)], order)
    assert sorted(orders[2]) == list(range(50))
    assert list(orders[2]) != list(range(50))
    assert first(made[2], 7, Draw(3, 1, "g")).max() > 7, "unpaired draws are not bound to the ends"


def archived(path: Path, *logs: Sequence[LogEntry], **changes: Any) -> Path:
    """An exported experiment of the generators "a", "b", …, with these logs of pairs of rows."""
    names = [chr(ord("a") + place) for place in range(len(logs))]
    config = {"name": "x", "generators": names, "metric": "is", "dimension": 3, "delta": 0.1, "keep_log": True}
    blank: dict[str, Any] = {"state": "active", "handed": 0, "returned": [], "quarantined": [], "quarantined_count": 0}
    blank["units"] = {"is": ArchivedUnit()}
    with path.open("wb+") as file, ArchiveWriter(file) as writer:
        known = [
            ArchivedGenerator(name=name, pages=[writer.add_page(list(log))] if log else [], **blank)
            for name, log in zip(names, logs, strict=True)
        ]
        asked = config_of(**(config | changes))
        experiment = experiment_of(asked, created=1.0, instance="i")
        contents = Manifest(experiment=experiment, rounds=3, controls={}, decision=None, generators=known)
        history = [(place, 0, told.rows) for place, log in enumerate(logs) for told in log]
        writer.finish(contents, np.array(history, HISTORY).tobytes())
    return path


def entry(seq: int, value: float, **changes: Any) -> LogEntry:
    """A batch of two rows whose first probability is above 1/3 by `value`, told in the order of `seq`."""
    body = tensors.encode({"probabilities": np.full((2, 3), 1 / 3) + value * np.array([1, -1, 0])})
    digest = tensors.digest(tensors.decode(body))
    return LogEntry(**{"seq": seq, "pick": seq, "rows": 2, "digest": digest, "body": body} | changes)


def exported(path: Path, keep_log: bool = True) -> Path:
    """An experiment of two generators, whose second told nothing, with three batches of the first, one damaged."""
    damaged = entry(2, 0.01, digest=entry(1, 0.0).digest)
    return archived(path, [entry(1, 0.0), damaged, entry(3, 0.02)], [], keep_log=keep_log)


def test_an_exported_experiment_brings_what_was_told_and_what_was_asked(tmp_path: Path):
    problem = sources.experiment(exported(tmp_path / "x.zip"))
    assert list(problem.sources) == ["a"]
    assert problem.settings == {"metric": InceptionScore(dimension=3), "delta": 0.1, "tolerance": 0.0}
    assert held(problem.sources["a"], "probabilities")[:, 0] == pytest.approx(
        [1 / 3, 1 / 3, 1 / 3 + 0.02, 1 / 3 + 0.02]
    )


def test_rows_that_do_not_count_are_left_out(tmp_path: Path):
    """The second batch was told with a gap, which the third one has filled."""
    whole = [entry(1, 0.0, indices=(0, 2)), entry(2, 0.01, indices=(2, 2))]
    parted = [
        entry(1, 0.0, indices=(0, 2)),
        entry(2, 0.01, indices=(3, 1), counted=(1, 1), rows=1),
        entry(3, 0.01, indices=(2, 1), counted=(0, 1), rows=1),
    ]
    found = [sources.experiment(archived(tmp_path / f"{n}.zip", log, whole)) for n, log in enumerate((whole, parted))]
    first, second = (held(one.sources["a"], "probabilities") for one in found)
    assert [one.is_paired() for one in found] == [True, True]
    np.testing.assert_array_equal(first, second)


def test_the_rows_of_a_paired_experiment_are_aligned_by_their_indices(tmp_path: Path):
    late = [entry(1, 0.0, indices=(0, 2)), entry(2, 0.02, indices=(4, 2)), entry(3, 0.01, indices=(2, 2))]
    path = archived(tmp_path / "x.zip", late, [entry(1, 0.03, indices=(0, 2))])
    problem = sources.experiment(path)
    assert problem.is_paired()
    assert held(problem.sources["a"], "probabilities")[::2, 0] == pytest.approx(1 / 3 + np.array([0.0, 0.01, 0.02]))
    drawn = first(problem.sources["a"], 2, Draw(1, 0, "g", paired=True), "probabilities")
    assert drawn[:, 0] == pytest.approx(1 / 3), "the two that b has, too"


@pytest.mark.parametrize(
    ("told", "changes"),
    [
        ([entry(1, 0.0, indices=(0, 2)), entry(2, 0.01, indices=(4, 2))], {}),  # 2 and 3 were never told
        ([entry(1, 0.0, indices=(0, 2)), entry(2, 0.01)], {}),
        ([entry(1, 0.0, indices=(0, 1))], {}),
        ([entry(1, 0.0, indices=(0, 2))], {"paired": False}),
    ],
)
def test_experiments_whose_rows_are_not_aligned(tmp_path: Path, told: list[LogEntry], changes: dict[str, Any]):
    problem = sources.experiment(archived(tmp_path / "x.zip", told, **changes))
    assert not problem.is_paired()
    with pytest.raises(ValueError, match=r"paired: .* found an experiment that is not paired, or lacks samples"):
        problem.is_paired(True)


def test_exports_that_cannot_be_drawn_from(tmp_path: Path):
    with pytest.raises(FixError, match=r"x.zip: expected an experiment made with keep_log"):
        sources.experiment(exported(tmp_path / "x.zip", keep_log=False))
    (tmp_path / "y.zip").write_bytes(b"nothing")
    with pytest.raises(FixError, match=r"y.zip: expected an archive"):
        sources.experiment(tmp_path / "y.zip")
    with pytest.raises(FixError, match=r"z.zip: no such file"):
        sources.experiment(tmp_path / "z.zip")
