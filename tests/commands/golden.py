"""The help of every command, and every table, as they are printed: `python -m tests.commands.golden` writes them anew.

They lie in tests/data/golden/, each in a file of its own, the tables at 80 columns and piped. Read the difference
before it is committed: it is what users will see.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import typer

from optimist.api.middleware.keys import KeyRecord
from optimist.commands.app import app
from optimist.commands.browse import overview as of_experiments
from optimist.commands.experiments import anomalous
from optimist.commands.keys import overview as of_keys
from optimist_client import display, mixture_display, route_display
from optimist_client.layout import Page
from optimist_client.models import DecisionInfo, Rank, Ranking, Summary
from optimist_client.models.anomalies import AnomalousBatch
from tests.sdk.test_display import paired
from tests.sdk.test_mixture_display import mixture
from tests.sdk.test_route_display import SAVINGS, routes
from tests.support.commands import invoked
from tests.support.places import DATA
from tests.support.reports import standings, watched

FOLDER = DATA / "golden"
TERMINAL = {"COLUMNS": "80", "TERM": "dumb", "TTY_COMPATIBLE": "1"}
"""Variables by which rich writes to a terminal of 80 columns that has no colours."""
OFFLINE = {
    "contrast-scores": ("contrast", "new.jsonl", "old.jsonl", "base.jsonl", "--id", "id"),
    "contrast-limits": (
        "contrast",
        "new.jsonl",
        "old.jsonl",
        "--id",
        "id",
        "--good-enough",
        "0.05",
        "--costs",
        "new=2,old=1",
    ),
    "contrast-logs": ("contrast", DATA / "logs/lm-eval", "--filter", "strict-match"),
    "gate": ("gate", "new.jsonl", "old.jsonl", "--margin", "0.02", "--id", "id"),
    "plan": ("plan", DATA / "logs/lm-eval", "--difference", "0.05", "--filter", "strict-match"),
    "route": ("route", "routes.jsonl", "--frequencies", "16", "--types", "2"),
    "score": ("score", "new.jsonl", "old.jsonl", "base.jsonl"),
    "simulate": (
        "simulate",
        "--features",
        "samples.npz",
        "--metric",
        "mean",
        "--rounds",
        "20",
        "--trials",
        "3",
        "--stop",
    ),
}
"""Commands on files, which `write_samples` makes."""


def commands() -> dict[tuple[str, ...], Any]:
    """Every command, and every group, by the words that call it."""

    def among(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield path, command
        for name in getattr(command, "commands", {}):
            yield from among((*path, name), command.get_command(None, name))

    return dict(among((), typer.main.get_command(app)))


def pages() -> dict[str, Page]:
    """The tables of what a service or the SDK shows, of made-up numbers."""
    names = ["b <i>", "near", "far", "none"]
    further = {
        label: watched(label, "near", standings=standings(dict.fromkeys(names, 1.5)))
        for label in ("kid", "rke", "vendi")
    }
    ranks = [("step-40k", 1, 1), ("step-20k", 2, 3), ("step-60k", 2, 3)]
    ranking = Ranking(delta=0.05, ranks=[Rank(generator=n, first=a, last=b) for n, a, b in ranks], decided=[1])
    findings = ["is about 255 times larger than its others: pixels 0–255 instead of 0–1?"]
    batch = AnomalousBatch(generator="step-40k", position=7, pick=1_204, samples=40, told=1.7e9, findings=findings)
    keys = {
        "3f9c0a2b": KeyRecord(digest="0" * 64, role="worker", namespace="default", created=1.7e9, note="four nodes"),
        "77aa01bc": KeyRecord(
            digest="0" * 64,
            role="viewer",
            namespace="research",
            created=1.7e9,
            expires=1.8e9,
            experiments=("nightly-checkpoints-2026-11", "digits"),
            note="for the review of the nightly checkpoints by the other team",
        ),
    }
    return {
        "report": display.as_text(paired()),
        "report-several-metrics": display.as_text(paired(watched=further)),
        "mixture": mixture_display.as_text(mixture()),
        "routes": route_display.as_text(routes(savings=SAVINGS)),
        "ranking": ranking.page,
        "list": Page(
            [of_experiments([_summary("digits"), _summary("nightly-checkpoints-of-2026-11", tags=["nightly"])])]
        ),
        "keys-list": Page([of_keys(keys)]),
        "anomalies": Page([anomalous([batch])]),
    }


def _summary(name: str, **fields: Any) -> Summary:
    made: dict[str, Any] = {"name": name, "metric": "fid", "title": "FID", "created": 0.0, "generators": 2}
    made |= {"generator_names": ["step-20k", "step-40k"], "state": "running", "incomplete": False, "score": 1.234}
    made |= {"decision": DecisionInfo(best="step-40k", confidence=0.97, decided=True, reason="")}
    made |= {"tags": ["nightly", "decoder"], "standard_error": 0.012, "samples": 123_456, "budget": None}
    return Summary.model_validate({**made, **fields})


def write_samples() -> None:
    """Write the files of `OFFLINE` into the present folder."""
    draw = np.random.default_rng(7)
    skill = draw.random(200)
    for name, shift in {"new": 0.1, "old": 0.0, "base": -0.2}.items():
        scores = (draw.random(200) < np.clip(skill + shift, 0, 1)).astype(float)
        rows = [json.dumps({"id": place, "score": score}) for place, score in enumerate(scores.tolist())]
        Path(f"{name}.jsonl").write_text("\n".join(rows))
    contexts = draw.standard_normal((120, 2)).round(3)
    rows = [
        {"id": place, "prompt": f"{'SELECT' if x > 0 else 'translate'} {place}", "context": [x, y]}
        | {"generator": name, "score": float(draw.random() < (0.8 if (x > 0) == (name == "large") else 0.4))}
        for place, (x, y) in enumerate(contexts.tolist())
        for name in ("large", "small")
    ]
    Path("routes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    np.savez("samples.npz", **{name: draw.normal(mean, 1.0, (400, 1)) for name, mean in {"a": 0.0, "b": 0.2}.items()})


def texts() -> dict[str, str]:
    """What is in each file, by its place in the folder."""
    found = {f"help/{'-'.join(('optimist', *path))}": _run(*path, "--help", env=TERMINAL) for path in commands()}
    found["help/words"] = _run("help", "words", env=TERMINAL)
    for name, page in pages().items():
        found |= {f"{name}-80": f"{page.text(80)}\n", f"{name}-piped": f"{page.text(None)}\n"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_samples()
        for name, arguments in OFFLINE.items():
            found |= {f"{name}-80": _run(*arguments, env=TERMINAL), f"{name}-piped": _run(*arguments)}
    return found


def _run(*arguments: object, env: Mapping[str, str] | None = None) -> str:
    return invoked(*arguments, env=env, code=0).stdout


def main() -> int:
    """Write all files, and remove those of commands that are gone; with --print, print their texts as JSON instead."""
    if "--print" in sys.argv:
        json.dump(texts(), sys.stdout)
        return 0
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, text in texts().items():
        file = FOLDER / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
