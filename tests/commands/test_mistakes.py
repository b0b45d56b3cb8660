"""Typical mistakes: each is refused at once, with what was expected or what to do, and never with a traceback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist import Evaluation
from optimist.commands.shared import limits_of
from optimist_client import FixError, Optimist, OptimistError
from tests.support.commands import invoked

Z = np.random.default_rng(0).standard_normal((60, 4))
REF = (np.zeros(4), np.eye(4))
REAL = ("--reference", "real.npz")
TEXT = ("--embed", "text")
MEAN: dict[str, Any] = {"metric": "mean"}


def fid(**more: Any) -> Evaluation:
    return Evaluation(["a", "b"], reference=REF, **more)


def mean(names: Any = ("a", "b"), **more: Any) -> Evaluation:
    return Evaluation(names, metric="mean", **more)


def alike(size: int, seed: int) -> np.ndarray:
    return Z[:size]


BOTH = {"a": alike, "b": alike}

# What configs and routers refuse: tests/sdk/test_wrong_configs.py and tests/local/test_routes_told.py.
COMMANDS: Mapping[tuple[str, ...], str] = {
    ("score", "one.npy", *REAL): "one.npy: array 'one': expected two rows or more",
    ("score", "a.npy", "--metric", "fidd"): "unknown metric 'fidd': expected one of fid, is, rke, vendi",
    ("score", "a.npy", "--metric", "rke:sigma=1"): "metric 'rke' takes dimension, kernel; it does not take sigma",
    ("score", "texts.jsonl", "--metric", "mean"): "texts are embedded by `optimist compare --embed text`",
    (
        "score",
        "a.npy",
        "--metric",
        "mean",
        "--field",
        "x",
    ): "--field: only files ending in .jsonl, .json, .csv, .tsv, .parquet have",
    ("contrast", "a.npy", *REAL): "expected two or more sets of samples to compare, got 1",
    ("contrast", "a.npy", "a.npy", *REAL): "a.npy:a: expected different sets of samples, got this one 2 times",
    ("compare", "a.txt", *TEXT): "generators: expected two or more to compare, got 1",
    ("compare", "a.txt", "no.txt", *TEXT): "no.txt: no such file or folder",
    ("compare", "a.txt", "a.txt", *TEXT): "expected paths with names of their own, got a.txt, a.txt",
    ("compare", "a.txt", "b.pdf", *TEXT): "b.pdf: expected texts in a .txt, .tar, .jsonl, .csv or .parquet file, found",
    ("compare", "a.npy"): "expected two or more to compare, got 1: `optimist score` scores one, as features",
    ("compare", "a.npy", "one.npy"): "a.npy: expected samples, found features: `optimist contrast` compares these",
    ("compare", "a.txt", "b.pdf"): "files of texts need --embed text",
    ("compare", "a.txt", "b.pdf", "--embed", "gpt"): "'gpt' is not one of 'inception', 'dinov2', 'clip'",
    ("compare", "a.txt", "texts.jsonl", *TEXT): "texts.jsonl: line 2: field 'text': expected a text, found 5",
    ("compare", "a.txt", "half.jsonl", *TEXT): "half.jsonl: line 1: expected a JSON object",
    ("compare", "a.txt", "texts.jsonl", *TEXT, "--plot", "no/plot.png"): "expected a file in an existing folder",
    ("compare", "empty", "a.txt"): "empty: expected images (.png, .jpg, .jpeg",
    ("route", "a.npy"): "a.npy: expected a file ending in .npz, found '.npy'",
    ("route", "scores.csv"): "expected a field 'generator', a file for each generator, or several of scores",
    ("simulate",): "expected exactly one of --features, --experiment and --generators",
    ("simulate", "--features", "a.npy", "--policy", "best"): "policy 'best': expected one of top-two, ucb, thompson",
    ("simulate", "--csv", "no/such.csv"): "'--csv': expected a file in an existing folder, got no/such.csv",
    ("simulate", "--picks", "."): "'--picks': expected a file in an existing folder, got .",
    ("list", "--url", "localhost:8000"): "expected one that begins with http:// or https://, as http://localhost:8000",
    ("annotate", "x"): "expected --tag or --note",
    ("import", "none.zip"): "none.zip: No such file or directory",
}
CALLS: Mapping[str, tuple[Callable[[], Any], str]] = {
    "url": (lambda: Optimist("localhost:8000"), "begins with http:// or https://, as http://localhost:8000"),
    "no generators": (lambda: mean([]), "expected at least one generator and distinct names, got []"),
    "a generator twice": (lambda: mean(["a", "a"]), "distinct names, got ['a', 'a']"),
    "a text for a list": (lambda: mean("ab"), "distinct names, got 'ab'"),
    "a setting misspelt": (lambda: mean(toleranc=1), "toleranc: unknown, did you mean tolerance?"),
    "a service's setting": (lambda: mean(previews=3), "previews: only a service has it"),
    "per cent": (lambda: mean(delta=5), "delta: expected a number below 1, got 5"),
    "a tolerance in words": (lambda: mean(tolerance="1 percent"), 'a share below 100% such as "1%"'),
    "reference": (lambda: Evaluation(["a", "b"], reference=np.zeros(4)), "expected shape (n, d) with n at least 2"),
    "an unknown generator": (lambda: mean().tell("c", Z[:, :1]), "unknown generator 'c'; expected one of a, b"),
    "columns": (lambda: fid().tell("a", Z[:, :3]), "features: expected shape (n, 4), got (60, 3)"),
    "not finite": (lambda: fid().tell("a", Z * np.inf), "features: expected finite numbers"),
    "a row": (lambda: fid().tell("a", Z[0]), "features: expected shape (n, 4), got (4,)"),
    "functions": (lambda: optimist.run([alike], reference=REF), 'such as {"old": old, "new": new}'),
    "one function": (lambda: optimist.run({"a": alike}, reference=REF), "`optimist.score` scores one"),
    "rows for functions": (lambda: optimist.run({"a": Z, "b": Z}, reference=REF), "expected a function (size, seed)"),
    "workers": (lambda: optimist.run(BOTH, reference=REF, workers=0), "workers: expected at least 1, got 0"),
    "functions for files": (lambda: optimist.compare(BOTH), "`optimist.run` compares functions"),
    "sets without names": (lambda: optimist.contrast([Z, Z], reference=REF), "such as {'old': rows, 'new': rows}"),
    "a contrast": (lambda: mean().contrast("c", "a"), "unknown generator 'c'; expected one of a, b"),
    "a gate": (lambda: mean().gate("c", "a", 0.1), "unknown generator 'c'; expected one of a, b"),
    "a table": (lambda: mean().report().table("word"), "expected one of markdown, latex, csv, html; got 'word'"),
    "a plot": (lambda: mean().report().plot(metric="rke"), "unknown metric 'rke'; no other metric is watched"),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", Z)
    np.save("one.npy", Z[:1])
    np.savez("real.npz", mean=REF[0], covariance=REF[1])
    texts = {"a.txt": "x\ny\n", "b.pdf": "", "texts.jsonl": '{"text": "x"}\n{"text": 5}\n'}
    for name, text in {**texts, "half.jsonl": "{\n", "scores.csv": "prompt,score\na,1\nb,2\n"}.items():
        Path(name).write_text(text)
    Path("empty").mkdir()
    return tmp_path


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("command", "said"), COMMANDS.items(), ids=" ".join)
def test_a_command_says_what_was_expected(command: tuple[str, ...], said: str):
    done = invoked(*command)
    assert done.exit_code in (1, 2), done.output
    assert isinstance(done.exception, SystemExit), "a traceback"
    assert said in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(("call", "said"), CALLS.values(), ids=CALLS)
def test_a_call_says_what_was_expected(call: Callable[[], Any], said: str):
    with pytest.raises((OptimistError, ValueError)) as refused:
        call()
    assert said in f"{refused.value}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("score", "--wrong"), "score: No such option: --wrong (Possible options: --json). See "),
        (
            ("contrast", "--metrc", "mean", "a", "b"),
            "contrast: No such option: --metrc (Possible options: --metric, --next). See ",
        ),
        (("frobnicate",), ": No such command 'frobnicate'. See "),
        (("score",), "score: Missing argument 'files'. See "),
    ],
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...], said: str):
    done = invoked(*arguments, code=2)
    [line] = done.output.splitlines()
    assert said in line
    assert line.endswith("--help")


def test_limits_are_by_metric_and_each_is_given_once():
    assert limits_of(["fid=within 2% of best", " kid = < 0.1"]) == {"fid": "within 2% of best", "kid": "< 0.1"}
    for wrong in (["fid"], ["fid=< 3", "fid =< 4"]):
        with pytest.raises(FixError, match="--limit: expected each metric once"):
            limits_of(wrong)


@pytest.mark.parametrize("command", ["score", "contrast", "compare", "simulate"])
def test_the_help_shows_a_range_without_brackets(command: str):
    assert "mean:range=0,10" in "".join(invoked(command, "--help").output.split())
