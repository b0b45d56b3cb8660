"""`optimist score FILE…` and `optimist bandwidth` as a user runs them, on files of every kind and on wrong ones."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import optimist
from optimist.records import codec
from optimist_client.metrics import declared
from tests.support.commands import invoked
from tests.support.reports import unwrapped

D = 4
KERNEL = {"name": "gaussian", "sigma": 2.0, "features": 64, "seed": 3}
KERNEL_TEXT = "kernel.sigma=2,kernel.features=64,kernel.seed=3"


def rows(seed: int, n: int = 60, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, D)) + shift


def probabilities(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(5, 0.3), 80)


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    done = invoked(*arguments, code=code)
    return done.stdout, done.stderr


def scored(*arguments: object) -> list[dict[str, Any]]:
    return json.loads(run("score", *arguments, "--json")[0])


def agrees(found: dict[str, Any], estimate: optimist.Estimate) -> None:
    assert found["score"] == pytest.approx(estimate.score, rel=1e-12)
    for name, value in codec.plain(estimate).items():
        is_number = isinstance(value, float) or (name == "bracket" and value)
        assert found[name] == (pytest.approx(value, rel=1e-12) if is_number else value), name


@pytest.fixture
def real(tmp_path: Path) -> Path:
    np.save(tmp_path / "real.npy", rows(0, 300))
    return tmp_path / "real.npy"


def test_every_file_type_is_scored_best_first(tmp_path: Path, real: Path):
    np.save(tmp_path / "far.npy", rows(1, shift=2.0).astype(np.float32))
    near = rows(3).astype(np.float16)
    np.savez(tmp_path / "pair.npz", middle=rows(2, shift=1.0), near=near)
    save_file({"features": rows(4, shift=3.0)}, tmp_path / "farthest.safetensors")
    files = [tmp_path / name for name in ("far.npy", "pair.npz", "farthest.safetensors")]
    found = scored(*files, "--reference", real)
    assert [row["name"] for row in found] == ["near", "middle", "far", "farthest"]
    assert [Path(row["file"]).name for row in found] == ["pair.npz", "pair.npz", "far.npy", "farthest.safetensors"]
    for row, batch in zip(found, (near.astype(np.float64), rows(2, shift=1.0)), strict=False):
        agrees(row, optimist.score(batch, "fid", reference=np.load(real)))


@pytest.mark.parametrize(
    ("metric", "options", "keywords"),
    [
        ("is", (), {}),
        ("is", ("--bound=naive", "--delta=0.1"), {"bound": "naive", "delta": 0.1}),
        (f"rke:{KERNEL_TEXT}", (), {"kernel": KERNEL}),
        (f"rke:{KERNEL_TEXT}", ("--bound=theorem",), {"kernel": KERNEL, "bound": "theorem"}),
        (f"vendi:{KERNEL_TEXT},order=inf", (), {"kernel": KERNEL, "order": math.inf}),
        (f"vendi:{KERNEL_TEXT},truncation=5", (), {"kernel": KERNEL, "truncation": 5}),
        ("vendi:kernel.name=cosine", (), {"kernel": {"name": "cosine"}}),
    ],
)
def test_every_metric_agrees_with_score(tmp_path: Path, metric: str, options: tuple[str, ...], keywords: dict):
    make = probabilities if metric == "is" else rows
    for seed in (1, 2):
        np.save(tmp_path / f"{seed}.npy", make(seed))
    found = scored(tmp_path / "1.npy", tmp_path / "2.npy", "--metric", metric, *options)
    assert found[0]["score"] >= found[1]["score"]
    for row in found:
        agrees(row, optimist.score(make(int(row["name"])), metric.partition(":")[0], **keywords))


@pytest.mark.parametrize("metric", [name for name, kind in declared().items() if kind.needs == {"reference"}])
def test_metrics_that_need_no_more_than_real_data_agree_with_score(tmp_path: Path, real: Path, metric: str):
    np.save(tmp_path / "1.npy", rows(1))
    (found,) = scored(tmp_path / "1.npy", "--metric", metric, "--reference", real)
    agrees(found, optimist.score(rows(1), metric, reference=np.load(real)))


@pytest.mark.parametrize("names", [("mean", "covariance"), ("mu", "sigma")])
def test_moments_are_a_reference(tmp_path: Path, names: tuple[str, str]):
    moments = (np.full(D, 0.5), 2.0 * np.eye(D))
    np.savez(tmp_path / "moments.npz", **dict(zip(names, moments, strict=True)))
    np.save(tmp_path / "a.npy", rows(1))
    (found,) = scored(tmp_path / "a.npy", "--reference", tmp_path / "moments.npz", "--bound=theorem")
    agrees(found, optimist.score(rows(1), "fid", reference=moments, bound="theorem"))
    assert found["upper"] is None


def test_bfloat16_is_read_as_what_it_holds(tmp_path: Path):
    halves = (np.ascontiguousarray(rows(1), "<f4").view("<u4") >> 16).astype("<u2")
    header = json.dumps({"x": {"dtype": "BF16", "shape": [60, D], "data_offsets": [0, halves.nbytes]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + halves.tobytes())
    (found,) = scored(tmp_path / "a.safetensors", f"--metric=rke:{KERNEL_TEXT}")
    widened = (halves.astype("<u4") << 16).view("<f4")
    agrees(found, optimist.score(widened, "rke", kernel=KERNEL))


def test_the_table_shows_interval_plug_in_and_warnings(tmp_path: Path, real: Path):
    np.save(tmp_path / "few[1].npy", rows(1, 3))
    np.save(tmp_path / "many.npy", rows(2, 1500, shift=1.0))
    table, _ = run("score", tmp_path / "few[1].npy", tmp_path / "many.npy", "--reference", real)
    estimate = optimist.score(rows(2, 1500, shift=1.0), "fid", reference=np.load(real))
    scores = f"{estimate.score:.3f} {estimate.lower:.3f} to {estimate.upper:.3f} {estimate.plug_in:.4g}"
    assert f"many {scores} 1,500" in unwrapped(table)
    assert "few[1]: fewer samples than dimensions: 3 samples" in table


def test_equal_names_are_told_apart_by_their_files(tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "same.npy", rows(1))
    files = [tmp_path / folder / "same.npy" for folder in ("a", "b")]
    names = {row["name"] for row in scored(*files, f"--metric=rke:{KERNEL_TEXT}")}
    assert names == {f"{file}:same" for file in files}


class Unsafe:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exit, (77,))


def bad_rows(value: float) -> np.ndarray:
    batch = rows(1)
    batch[3, 1] = value
    return batch


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (bad_rows(math.nan), "nan in row 3, column 1"),
        (bad_rows(math.inf), "inf in row 3, column 1"),
        (bad_rows(math.inf).astype(np.float16), "inf in row 3, column 1"),
        (np.ones(7), "expected shape (n, d), found (7,)"),
        (np.ones((7, 0)), "expected shape (n, d), found (7, 0)"),
        (np.ones((0, D)), "at least one row"),
        (np.ones((7, D + 1)), f"expected {D} columns, as the reference has; 'x' has {D + 1}"),
        (np.array([["a", "b"]]), "expected real numbers, found dtype <U1"),
        (np.ones((7, D), complex), "expected real numbers, found dtype complex128"),
        (np.array([[Unsafe()]]), "allow_pickle=False"),
    ],
)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_that_are_not_as_expected(tmp_path: Path, real: Path, array: np.ndarray, expected: str, suffix: str):
    file = tmp_path / f"x{suffix}"
    np.save(file, array) if suffix == ".npy" else np.savez(file, features=array)
    out, error = run("score", file, "--reference", real, "--json", code=1)
    assert out == ""
    assert error.startswith(f"{file}: ")
    assert expected in error


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.npy", None, "no such file"),
        ("x.safetensors", None, "no such file"),
        (
            "x.pt",
            b"",
            "expected a file ending in .npy, .npz, .safetensors, .parquet, .jsonl, .json, .csv, .tsv, found",
        ),
        ("x", b"", "found 'no ending'"),
        ("x.npy", b"", "expected a readable .npy file"),
        ("x.npy", b"\x80\x04K\x01.", "expected a readable .npy file"),
        ("x.npz", b"PK\x03\x04 damaged", "expected a readable .npz file"),
        ("x.safetensors", b"damaged", "expected a readable .safetensors file"),
        ("x.safetensors", b"\x02\0\0\0\0\0\0\0{}", "at least one array, found none"),
    ],
)
def test_files_that_are_not_as_expected(tmp_path: Path, real: Path, name: str, content: bytes | None, expected: str):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    for arguments in ((tmp_path / name, "--reference", real), (real, "--reference", tmp_path / name)):
        _, error = run("score", *arguments, code=1)
        assert error.startswith(f"{tmp_path / name}: ")
        assert expected in error


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"mean": np.zeros(D), "sigma": np.eye(D)}, "mean and covariance, or mu and sigma; found mean, sigma"),
        ({"mu": np.zeros(D), "sigma": np.eye(D + 1)}, "covariance: expected shape (4, 4)"),
        ({"mu": np.zeros(D), "sigma": -np.eye(D)}, "positive semi-definite"),
        ({"features": np.ones((1, D))}, "n at least 2"),
        ({"features": np.ones(D)}, "expected shape (n, d) with n at least 2, got (4,)"),
        ({"features": bad_rows(math.nan)}, "nan in row 3"),
    ],
)
def test_references_that_are_not_as_expected(tmp_path: Path, real: Path, arrays: dict, expected: str):
    np.savez(tmp_path / "reference.npz", **arrays)
    _, error = run("score", real, "--reference", tmp_path / "reference.npz", code=1)
    assert error.startswith(f"{tmp_path / 'reference.npz'}: ")
    assert expected in error


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "--reference FILE"),
        (("--metric=is", "--reference=REAL"), "no metric of is compares with real data"),
        (("--metric=is",), "Logits must go through a softmax"),
        (("--metric=vendi:kernel.sigma=one",), "sigma"),
        (("--metric=rke:kernel.sigma=1", "--bound=authors"), "has the bounds influence, theorem"),
        (("--reference=REAL", "--delta=0"), "delta must lie"),
    ],
)
def test_options_that_make_no_sense(real: Path, options: tuple[str, ...], expected: str):
    _, error = run("score", real, *(option.replace("REAL", str(real)) for option in options), code=1)
    assert expected in error


def test_what_is_wrong_without_a_reference_is_named_too(tmp_path: Path, real: Path):
    np.save(tmp_path / "wide.npy", np.ones((5, D + 1)))
    _, error = run("score", real, tmp_path / "wide.npy", "--metric=rke:kernel.sigma=1", code=1)
    assert f"{tmp_path / 'wide.npy'}: expected {D} columns, as 'real' of {real} has" in error
    np.save(tmp_path / "x.npy", np.diag([1.0, 0.0]))
    _, error = run("score", tmp_path / "x.npy", "--metric=rke:kernel.name=cosine", code=1)
    assert error.startswith(f"{tmp_path / 'x.npy'}: ")
    assert "row 1 is" in error
    assert "Missing argument 'files'" in run("score", code=2)[1]


def pairs(seed: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"features": scale * rng.standard_normal((300, D)), "prompts": rng.standard_normal((300, 2))}


def test_one_median_bandwidth_for_all_files_as_an_experiment_has(tmp_path: Path):
    batches = {"near": rows(1, 300), "wide": 10.0 * rows(2, 200), "few": rows(3, 50)}
    np.savez(tmp_path / "two.npz", near=batches["near"], wide=batches["wide"].astype(np.float32))
    np.save(tmp_path / "few.npy", batches["few"])
    metric = "--metric=vendi:kernel.sigma=median,kernel.features=64"
    found = scored(tmp_path / "two.npz", tmp_path / "few.npy", metric)
    # 256 rows, 86 of each generator as far as there are so many; the median of three medians.
    medians = [
        np.median(np.linalg.norm(rows[:86, None] - rows[None, :86], axis=-1)[np.triu_indices(min(len(rows), 86), 1)])
        for rows in batches.values()
    ]
    for row in found:
        assert row["bandwidths"]["kernel"] == pytest.approx(sorted(medians)[1], rel=1e-3)
        kernel = {"sigma": row["bandwidths"]["kernel"], "features": 64}
        batch = batches[row["name"]].astype(np.float32 if row["name"] == "wide" else np.float64)
        agrees(row, optimist.score(batch, "vendi", kernel=kernel))
    table, _ = run("score", tmp_path / "two.npz", tmp_path / "few.npy", metric)
    assert f"σ of the kernel: {found[0]['bandwidths']['kernel']:.4g}." in table


@pytest.mark.parametrize("features", [16, "exact"])
def test_one_median_bandwidth_for_the_prompts_of_all_files(tmp_path: Path, features: int | str):
    for seed in (1, 2):
        np.savez(tmp_path / f"{seed}.npz", **pairs(seed, scale=float(seed)))
    files = (tmp_path / "1.npz", tmp_path / "2.npz")
    kernels = f"kernel.sigma=2,kernel.features={features},prompt_kernel.sigma=median"
    found = scored(*files, f"--metric=conditional-vendi:{kernels}")
    assert found[0]["bandwidths"] == found[1]["bandwidths"]
    assert found[0]["bandwidths"]["kernel"] == 2.0
    for row in found:
        kernel = {"sigma": 2.0, "features": features}
        prompt_kernel = {"sigma": row["bandwidths"]["prompt_kernel"]}
        arrays = pairs(int(row["name"]), scale=float(row["name"]))
        agrees(row, optimist.score(arrays, "conditional-vendi", kernel=kernel, prompt_kernel=prompt_kernel))


@pytest.mark.parametrize("sigma", ["1", "median"])
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"features": np.ones(300)}, "array 'features': expected shape (n, d), found (300,)"),
        ({"features": np.float64(1.0)}, "array 'features': expected shape (n, d), found ()"),
        ({"prompts": np.ones(300)}, "array 'prompts': expected shape (n, d), found (300,)"),
        ({"prompts": np.float64(1.0)}, "array 'prompts': expected shape (n, d), found ()"),
        ({"prompts": np.ones((300, 3))}, "expected 2 columns of prompts, as 'good' of "),
        ({"prompts": np.ones((299, 2))}, "as many rows"),
        ({"prompts": np.full((300, 2), math.nan)}, "nan in row 0"),
    ],
)
def test_pairs_that_are_not_as_expected(tmp_path: Path, wrong: dict, expected: str, sigma: str):
    np.savez(tmp_path / "good.npz", **pairs(1))
    np.savez(tmp_path / "bad.npz", **{**pairs(2), **wrong})
    metric = f"--metric=conditional-vendi:kernel.sigma=1,kernel.features=8,prompt_kernel.sigma={sigma}"
    _, error = run("score", tmp_path / "good.npz", tmp_path / "bad.npz", metric, code=1)
    assert error.startswith(f"{tmp_path / 'bad.npz'}: ")
    assert expected in error


@pytest.mark.long
def test_stdout_of_the_real_command_is_one_document(tmp_path: Path, real: Path):
    np.save(tmp_path / "few.npy", rows(1, 3))
    arguments = ["score", tmp_path / "few.npy", "--reference", real, "--json"]
    command = [sys.executable, "-m", "optimist.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0]["warnings"]
    assert run(*arguments, tmp_path / "none.npy", code=1) == ("", f"{tmp_path / 'none.npy'}: no such file\n")


def test_the_help_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; from optimist.cli import main; sys.argv[1:] = ['--help']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bandwidth" in done.stdout


@pytest.fixture
def clusters(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    centres = 8.0 * rng.standard_normal((5, D))
    np.save(tmp_path / "clusters.npy", centres[rng.integers(5, size=600)] + rng.standard_normal((600, D)))
    return tmp_path / "clusters.npy"


@pytest.mark.parametrize("metric", ["rke", pytest.param("vendi", marks=pytest.mark.long)])
def test_the_bandwidth_is_the_smallest_from_which_on_scores_are_steady(clusters: Path, metric: str):
    found = json.loads(run("bandwidth", clusters, "--metric", metric, "--frequencies=32", "--subsets=6", "--json")[0])
    distances = np.linalg.norm(np.load(clusters)[:, None] - np.load(clusters)[None], axis=-1)
    assert found["median_distance"] == pytest.approx(np.median(distances[np.triu_indices(600, 1)]), rel=1e-9)
    assert (found["subsets"], found["size"], len(found["spreads"])) == (6, 100, 13)
    sigmas = [row["sigma"] for row in found["spreads"]]
    assert sigmas[0] == pytest.approx(found["median_distance"] / 8)
    assert sigmas[-1] == pytest.approx(found["median_distance"] * 8)
    place = sigmas.index(found["chosen"])
    assert all(row["variance"] < 0.01 for row in found["spreads"][place:])
    assert found["spreads"][place - 1]["variance"] >= 0.01
    part = np.load(clusters)[np.random.default_rng(0).permutation(600)][:100]
    for row in found["spreads"]:
        own = optimist.score(part, metric, kernel={"sigma": row["sigma"], "features": "exact"}).score
        assert row["features"] == next((2**k for k in range(6, 14) if own <= 2**k / 4), None)


def test_a_vanishing_sigma_is_steady_but_not_chosen(clusters: Path):
    options = ("--sigmas=1000,0.0001,5", "--frequencies=64", "--subsets=6", "--size=50", "--json")
    found = json.loads(run("bandwidth", clusters, *options)[0])
    assert [row["sigma"] for row in found["spreads"]] == [0.0001, 5.0, 1000.0]
    assert found["spreads"][0]["variance"] < 0.01 <= found["spreads"][1]["variance"]
    assert found["chosen"] == 1000.0


def test_the_spread_is_that_of_scores_of_disjoint_subsets(clusters: Path):
    options = ("--sigmas=4", "--frequencies=32", "--subsets=3", "--size=200", "--seed=5", "--json")
    (spread,) = json.loads(run("bandwidth", clusters, *options)[0])["spreads"]
    shuffled = np.load(clusters)[np.random.default_rng(5).permutation(600)]
    kernel = {"sigma": 4.0, "features": 32, "seed": 5}
    scores = [optimist.score(part, "vendi", kernel=kernel).score for part in np.split(shuffled, 3)]
    assert spread["mean"] == pytest.approx(np.mean(scores), rel=1e-12)
    assert spread["variance"] == pytest.approx(np.var(scores, ddof=1), rel=1e-9)


def test_the_bandwidth_table_says_what_was_chosen(clusters: Path):
    np.save(clusters, np.load(clusters).astype(np.float16))
    options = ("--frequencies=16", "--subsets=2", "--size=20")
    out, _ = run("bandwidth", clusters, "--sigmas=1000", *options)
    assert "(variance below 0.01): 1000." in out
    assert "Median distance" in out
    assert "features: the least r" in out
    out, _ = run("bandwidth", clusters, "--sigmas=1.5", "--metric=rke", *options)
    assert "none found, try larger σ" in out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--sigmas=1,x",), "--sigmas: expected numbers such as 5,10,20, got '1,x'"),
        (("--sigmas=-1",), "sigma must be positive"),
        (("--sigmas=nan",), "sigma must be positive"),
        (("--subsets=1",), "at least 2 subsets"),
        (("--size=1",), "at least 2 subsets of at least 2 rows"),
        (("--size=61",), "expected rows for 10 disjoint subsets of 61, found 600 rows"),
        (("--subsets=301",), "expected rows for 301 disjoint subsets of 2, found 600 rows"),
    ],
)
def test_bandwidth_options_that_make_no_sense(clusters: Path, options: tuple[str, ...], expected: str):
    assert expected in run("bandwidth", clusters, *options, code=1)[1]


def test_bandwidth_files_that_are_not_as_expected(tmp_path: Path):
    file = tmp_path / "x.npz"
    for arrays, expected in (
        ({"a": rows(1), "b": rows(2)}, "expected one array, found a, b"),
        ({"a": bad_rows(math.nan)}, "nan in row 3"),
        ({"a": np.ones((40, D))}, "expected rows that differ"),
    ):
        np.savez(file, **arrays)
        _, error = run("bandwidth", file, code=1)
        assert error.startswith(f"{file}: ")
        assert expected in error


def test_a_folder_is_scored_as_simulate_reads_it(tmp_path: Path):
    folder = tmp_path / "runs"
    (folder / "parts").mkdir(parents=True)
    np.save(folder / "parts" / "0.npy", rows(1, 40))
    np.save(folder / "parts" / "1.npy", rows(2, 20))
    np.save(folder / "far.npy", rows(3, shift=1.0))
    np.save(folder / "real.npy", rows(0, 300))
    (folder / "notes.txt").write_text("of the run")
    options = ("--reference", folder / "real.npy")
    both = np.concatenate([rows(1, 40), rows(2, 20)])
    np.save(tmp_path / "parts.npy", both)
    found = scored(folder, *options)
    assert [row["name"] for row in found] == ["parts", "far"]
    alone = scored(tmp_path / "parts.npy", folder / "far.npy", *options)
    assert [row["score"] for row in found] == [row["score"] for row in alone]
    (tmp_path / "empty").mkdir()
    assert "expected a file ending in" in run("score", tmp_path / "empty", "--metric=is", code=1)[1]
