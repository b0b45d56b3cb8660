"""`optimist.contrast` and `optimist contrast FILE…`: differences of samples that are there, paired or not."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist_client.models import Contrast
from tests.commands.golden import commands
from tests.support.commands import invoked
from tests.support.reports import unwrapped

D = 4
REFERENCE = (np.zeros(D), np.eye(D))
KERNEL = {"name": "gaussian", "sigma": 2.0, "features": 32}
Z = np.random.default_rng(0).standard_normal((600, D))
SETS = {"wide": 1.5 * Z, "near": 1.3 * Z, "middle": 1.4 * Z}


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    done = invoked("contrast", *arguments, code=code)
    return done.stdout, " ".join(done.stderr.split())


def test_rows_are_paired_by_their_ids(tmp_path: Path):
    """The same samples in another order, and some that only one file has, are compared as those that they are."""
    shuffled = np.random.default_rng(1).permutation(200)
    rows = {"old": [*enumerate(1.3 * Z[:200])], "new": [(place, 1.2 * Z[place]) for place in shuffled]}
    rows["new"] += [(1000 + place, row) for place, row in enumerate(Z[300:340])]
    for name, each in rows.items():
        lines = (json.dumps({"sample": int(place), "row": row.tolist()}) for place, row in each)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    files = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
    np.savez(tmp_path / "real.npz", mean=REFERENCE[0], covariance=REFERENCE[1])
    how = ("--reference", tmp_path / "real.npz", "--field", "row", "--json")
    paired = json.loads(run(*files, *how, "--id", "sample")[0])
    apart = json.loads(run(*files, *how)[0])
    (one,), (other,) = paired["contrasts"], apart["contrasts"]
    assert one["common"] == 200
    assert one["correlation"] > 0.8 > other["correlation"] == 0.0
    assert one["standard_error"] < 0.6 * other["standard_error"]
    assert one["difference"] == pytest.approx(other["difference"], rel=1e-9)
    others = ({"sample": -place, "row": [float(place)] * D} for place in (1, 2))
    files[1].write_text("\n".join(map(json.dumps, others)))
    assert "ids: none is in all of" in run(*files, *how, "--id", "sample", code=1)[1]


def test_common_seeds_make_differences_sharper_and_scores_are_those_of_score():
    paired = optimist.contrast(SETS, "fid", reference=REFERENCE, paired=True)
    apart = optimist.contrast(SETS, "fid", reference=REFERENCE)
    assert list(paired.estimates) == ["near", "middle", "wide"]
    for name, estimate in paired.estimates.items():
        alone = optimist.score(SETS[name], "fid", reference=REFERENCE)
        for field in ("value", "lower", "upper", "plug_in"):
            assert getattr(estimate, field) == pytest.approx(getattr(alone, field), rel=1e-9)
    for sharp, plain in zip(paired.between, apart.between, strict=True):
        assert (sharp.generator, sharp.against) == (plain.generator, plain.against)
        assert sharp.difference == pytest.approx(plain.difference, rel=1e-9)
        assert sharp.standard_error < 0.5 * plain.standard_error
        assert (sharp.common, plain.common) == (600, 0)
        assert sharp.correlation > 0.7
        assert plain.correlation == 0.0


def test_independent_samples_have_the_errors_of_independent_scores():
    found = optimist.contrast(SETS, "fid", reference=REFERENCE, delta=0.1)
    one = found.contrasts[0]
    errors = [found.estimates[name].stopping_error for name in (one.generator, one.against)]
    assert one.standard_error == pytest.approx(math.hypot(*errors), rel=1e-12)
    assert one.upper - one.difference == pytest.approx(1.6448536269514722 * one.standard_error, rel=1e-9)


def test_contrasts_are_those_of_an_evaluation_that_was_told_the_same():
    evaluation = optimist.Evaluation(list(SETS), reference=REFERENCE, rescore_growth=0.0)
    for name, rows in SETS.items():
        evaluation.tell(name, rows)
    for one in optimist.contrast(SETS, reference=REFERENCE, paired=True).between:
        same = evaluation.contrast(one.generator, one.against)
        assert (same.difference, same.standard_error, same.correlation) == pytest.approx(
            (one.difference, one.standard_error, one.correlation), rel=1e-9
        )
        assert same.common == one.common


def test_a_shorter_set_is_compared_with_what_the_longer_ones_had_at_its_length():
    sets = {"a": 1.02 * Z, "b": 1.1 * Z[:300]}
    uneven = optimist.contrast(sets, reference=REFERENCE, paired=True).contrasts[0]
    even = optimist.contrast({"a": 1.02 * Z[:300], "b": 1.1 * Z[:300]}, reference=REFERENCE, paired=True).contrasts[0]
    apart = optimist.contrast(sets, reference=REFERENCE).contrasts[0]
    assert uneven.common == 300
    assert uneven.standard_error < 0.7 * apart.standard_error
    # The luck of the first 300 rows cancels, as it does at equal lengths.
    assert abs(uneven.difference - even.difference) < 0.6 * apart.standard_error


def test_unrelated_rows_lose_nothing_by_a_false_claim():
    rng = np.random.default_rng(1)
    sets = {name: rng.standard_normal((400, D)) * scale for name, scale in (("a", 1.0), ("b", 1.2))}
    claimed = optimist.contrast(sets, reference=REFERENCE, paired=True).contrasts[0]
    apart = optimist.contrast(sets, reference=REFERENCE).contrasts[0]
    assert claimed.difference == apart.difference
    assert claimed.standard_error == pytest.approx(apart.standard_error, rel=0.1)


@pytest.mark.parametrize("metric", ["rke", "vendi", "is", "conditional-vendi"])
def test_every_kind_of_metric(metric: str):
    rng = np.random.default_rng(2)
    logits, prompts = rng.standard_normal((300, D)), rng.standard_normal((300, 2))
    scales = {"a": 3.0, "b": 2.7}
    settings: dict[str, Any] = {"kernel": KERNEL}
    if metric == "is":
        sets, settings = {name: np.exp(scale * logits) for name, scale in scales.items()}, {}
        sets = {name: rows / rows.sum(1, keepdims=True) for name, rows in sets.items()}
    elif metric == "conditional-vendi":
        sets = {name: {"features": scale * logits, "prompts": prompts} for name, scale in scales.items()}
        settings |= {"prompt_kernel": KERNEL, "order": 2.0}
    else:
        sets = {name: scale * logits for name, scale in scales.items()}
    (one,) = optimist.contrast(sets, metric, paired=True, **settings).contrasts
    (plain,) = optimist.contrast(sets, metric, **settings).contrasts
    assert one.scale == "log"
    assert one.text.endswith("%)")
    assert one.correlation > 0.5
    assert one.standard_error <= plain.standard_error


def test_the_median_bandwidth_is_that_of_an_experiment(tmp_path: Path):
    np.save(tmp_path / "a.npy", SETS["near"])
    np.save(tmp_path / "b.npy", SETS["wide"])
    found = optimist.contrast(
        {"a": tmp_path / "a.npy", "b": SETS["wide"]}, "rke", kernel=KERNEL | {"sigma": "median"}, paired=True
    )
    options = ("--metric=rke:kernel.sigma=median,kernel.features=32", "--paired", "--json")
    told = json.loads(run(tmp_path / "a.npy", tmp_path / "b.npy", *options)[0])
    assert told["contrasts"][0]["difference"] == found.contrasts[0].difference
    sigma = json.loads(invoked("score", f"{tmp_path}/a.npy", f"{tmp_path}/b.npy", options[0], "--json").stdout)[0][
        "bandwidths"
    ]["kernel"]
    known = optimist.contrast(
        {"a": SETS["near"], "b": SETS["wide"]}, "rke", kernel=KERNEL | {"sigma": sigma}, paired=True
    )
    assert known.contrasts[0].difference == pytest.approx(found.contrasts[0].difference, rel=1e-9)


def test_the_number_of_real_samples_may_be_given_beside_their_moments(tmp_path: Path):
    mean, covariance = REFERENCE
    np.savez(tmp_path / "real.npz", mean=mean, covariance=covariance)
    files = [tmp_path / f"{name}.npy" for name in SETS]
    for file in files:
        np.save(file, SETS[file.stem])
    options = ("--paired", "--reference", tmp_path / "real.npz")
    for samples in (None, 900):
        given = () if samples is None else (f"--reference-samples={samples}",)
        told = json.loads(run(*files, *options, *given, "--json")[0])
        found = optimist.contrast(SETS, reference=(mean, covariance, samples), paired=True)
        assert told["contrasts"] == [one.model_dump(mode="json") for one in found.between]
        # 600 samples are many for 900 real ones, so that either is a reason to warn, but once for all generators.
        assert [len(score["warnings"]) for score in told["scores"]] == [1, 1, 1]
        (warning,) = told["scores"][0]["warnings"]
        assert (f"{samples} samples" in warning) == (samples is not None)
        assert unwrapped(found).count(warning) == 1
        assert unwrapped(found).endswith(warning)
    exact, finite = (optimist.contrast(SETS, reference=(*REFERENCE, m), paired=True).contrasts[0] for m in (None, 900))
    assert exact.standard_error < finite.standard_error


def test_a_number_of_real_samples_that_cannot_be_is_refused(tmp_path: Path):
    np.save(tmp_path / "a.npy", Z)
    for options, said in (
        (("--metric=is",), "--reference-samples goes with --reference"),
        (("--reference", tmp_path / "a.npy"), "the real data has 600 rows, not 900"),
    ):
        _, error = run(tmp_path / "a.npy", tmp_path / "a.npy", "--reference-samples=900", "--paired", *options, code=1)
        assert said in error


def test_a_number_of_real_samples_that_nothing_would_use_is_refused(tmp_path: Path):
    np.savez(tmp_path / "real.npz", mean=REFERENCE[0], covariance=REFERENCE[1])
    for name in ("near", "wide"):
        np.save(tmp_path / f"{name}.npy", SETS[name])
    given = ("--reference", tmp_path / "real.npz", "--reference-samples=900")
    files = (tmp_path / "near.npy", tmp_path / "wide.npy")
    for command in (("contrast", *files), ("gate", *files, "--margin=1%")):
        refused = invoked(*command, *given)
        assert (refused.exit_code > 0, "expected --paired or --id, too" in refused.stderr) == (True, True)


def test_every_command_with_differences_takes_the_number_of_samples_of_its_reference():
    taking = {" ".join(path): {parameter.name for parameter in command.params} for path, command in commands().items()}
    with_reference = {command for command, names in taking.items() if "reference" in names}
    assert {command for command in with_reference if "reference_samples" not in taking[command]} == {"score"}
    assert with_reference == {"score", "compare", "contrast", "simulate", "gate"}


def test_print_json_and_pandas_say_the_same():
    found = optimist.contrast(SETS, reference=REFERENCE, paired=True)
    assert f"{found}".startswith("FID, paired, 95% intervals\ngenerator")
    said = found.to_dict()
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    assert [row["name"] for row in said["scores"]] == list(found.estimates)
    assert [one["difference"] for one in said["contrasts"]] == found.to_pandas()["difference"].tolist()
    for one, text in zip(found.between, Contrast.column(found.between), strict=True):
        assert re.search(rf"^{one.generator} +{one.against} +{re.escape(text)} ", f"{found}", re.MULTILINE)


def test_what_is_not_paired_has_no_columns_of_what_is_in_common():
    heads = {paired: f"{optimist.contrast(SETS, reference=REFERENCE, paired=paired)}" for paired in (False, True)}
    assert "in common" in heads[True]
    assert not [word for word in ("in common", "correlation", "0.00 ") if word in heads[False]]


def test_a_single_row_has_a_score_and_a_difference_without_interval():
    (one,) = optimist.contrast({"a": Z[:1], "b": Z}, reference=REFERENCE, paired=True).contrasts
    assert one.standard_error is None
    assert (one.lower, one.upper) == (None, None)
    assert "±" not in one.text


@pytest.mark.parametrize(
    ("sets", "options", "expected"),
    [
        ({"a": Z}, {}, "expected two or more sets of samples to compare, got 1"),
        ({"a": Z, "b": np.ones(5)}, {}, "samples of 'b': "),
        ({"a": Z, "b": Z[:, :2]}, {}, "samples of 'b': "),
        ({"a": Z, "b": np.full((5, D), math.nan)}, {}, "samples of 'b': features: expected finite numbers"),
        ({"a": Z, "b": Z}, {"delta": 0.0}, "delta must lie"),
        ({"a": Z, "b": Z}, {"metric": "rke", "reference": None}, "needs kernel"),
    ],
)
def test_what_cannot_be_compared(sets: Any, options: dict[str, Any], expected: str):
    with pytest.raises(ValueError, match=re.escape(expected)):
        optimist.contrast(sets, **{"reference": REFERENCE, **options})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    for name, rows in SETS.items():
        np.save(tmp_path / f"{name}.npy", rows)
    np.savez(tmp_path / "real.npz", mu=REFERENCE[0], sigma=REFERENCE[1])
    return {name: tmp_path / f"{name}.npy" for name in SETS} | {"real": tmp_path / "real.npz"}


def test_the_command_prints_what_the_function_says(files: dict[str, Path]):
    named = [files[name] for name in SETS]
    for options, paired in (((), False), (("--paired",), True)):
        found = optimist.contrast(SETS, reference=REFERENCE, paired=paired)
        assert run(*named, "--reference", files["real"], *options)[0] == f"{found}\n"
    said = json.loads(run(*named, "--reference", files["real"], "--paired", "--json")[0])
    assert said == json.loads(json.dumps(found.to_dict()))


def test_of_more_than_six_files_the_differences_from_the_best_are_shown(tmp_path: Path):
    np.savez(tmp_path / "levels.npz", **{f"level-{place}": (1.0 + 0.05 * place) * Z for place in range(7)})
    np.save(tmp_path / "real.npy", 0.99 * Z)
    arguments = (tmp_path / "levels.npz", "--paired", "--reference", tmp_path / "real.npy")
    assert len(run(*arguments)[0].split("\n\n")[1].splitlines()) == 1 + 6
    assert len(run(*arguments, "--every")[0].split("\n\n")[1].splitlines()) == 1 + 21


def test_equal_names_are_told_apart_by_their_files(tmp_path: Path, files: dict[str, Path]):
    other = tmp_path / ("long-" * 25) / "near.npy"
    other.parent.mkdir()
    np.save(other, 1.3 * Z)
    printed, _ = run(files["near"], other, "--reference", files["real"], "--paired")
    assert f"{other}:near" in printed
    assert f"{files['near']}:near" in printed


def test_files_that_cannot_be_compared(tmp_path: Path, files: dict[str, Path]):
    np.save(tmp_path / "narrow.npy", Z[:, :3])
    np.save(tmp_path / "odd.npy", np.where(np.arange(D) == 1, math.nan, Z))
    reference = ("--reference", files["real"])
    for arguments, expected in (
        ((files["near"], tmp_path / "narrow.npy", *reference), f"{tmp_path / 'narrow.npy'}: expected 4 columns"),
        ((files["near"], tmp_path / "odd.npy", *reference), f"{tmp_path / 'odd.npy'}: array 'odd': features: "),
        ((files["near"], tmp_path / "none.npy", *reference), f"{tmp_path / 'none.npy'}: no such file"),
        ((files["near"], files["wide"]), "--reference FILE"),
        ((files["near"], files["wide"], "--metric=rke"), "as text rke:kernel.sigma=10"),
    ):
        out, error = run(*arguments, code=1)
        assert out == ""
        assert expected in error
