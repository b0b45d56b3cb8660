"""What the pages' snippets take for granted: the reader's own models, files and experiments, at the smallest size."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from optimist_client import AsyncOptimist, Optimist
from tests.support.places import DATA

Prelude = Callable[[str], dict[str, Any]]
"""From the service's URL to the names that a page's Python begins with; files are made in the working directory."""


def _rows(shift: float, size: int, seed: int, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, (size, width))


def _tables() -> None:
    """Scores as a judge and a harness export them."""
    head, lines = (
        "id,model,judge_score,latency_ms",
        [f"{i},{name},{i % most},9" for i in range(30) for name, most in _MODELS],
    )
    Path("scores.csv").write_text("\n".join([head, *lines, ""]))
    for name, most in _MODELS:
        rows = [
            {"doc_id": i, "filter": f, "exact_match": i % most} for i in range(30) for f in ("strict-match", "none")
        ]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))


_MODELS = (("large", 5), ("small", 3))


def _moments(file: str, width: int = 8) -> None:
    np.savez(file, mu=np.zeros(width), sigma=np.eye(width))


def sdk(url: str) -> dict[str, Any]:
    _moments("real.npz")
    _moments("real-dinov2.npz")
    shifts = {"old": 1.5, "new": 0.0}
    return {
        "AsyncOptimist": AsyncOptimist,
        "sample_old": lambda size, seed: _rows(shifts["old"], size, seed),
        "sample_new": lambda size, seed: _rows(shifts["new"], size, seed),
        "features": lambda samples: samples,
        "dinov2": np.tanh,
        "clipscore": lambda samples: samples.mean(axis=1),
        "models": {
            name: SimpleNamespace(sample=lambda size, seed, shift=shift: _rows(shift, size, seed))
            for name, shift in shifts.items()
        },
    }


def metrics(url: str) -> dict[str, Any]:
    shifts = {"old": 1.5, "new": 0.0}
    _moments("real.npz")
    np.save("gen-a.npy", _rows(0.0, 60, 1))
    _tables()
    np.savez("gen-b.npz", features=_rows(0.5, 60, 2))
    save_file({"features": _rows(1.0, 60, 3)}, "gen-c.safetensors")
    np.save("real.npy", _rows(0.0, 400, 4))
    for number in (1, 2):
        pairs = {"features": _rows(0.0, 60, number), "prompts": _rows(0.0, 60, 10 + number)}
        np.savez(f"answers-{number}.npz", **pairs)
        np.savez(f"several-{number}.npz", features=pairs["features"], clipscore=pairs["prompts"][:, 0])
    kernel = {"name": "gaussian", "sigma": 4.0, "features": 16}
    optimist = Optimist(url)
    experiment = optimist.create_experiment(
        "pairs",
        ["a", "b"],
        metric="conditional-vendi",
        dimension=8,
        prompt_dimension=8,
        kernel=kernel,
        prompt_kernel=kernel,
        prompts=[f"prompt {number}" for number in range(20)],
        budget=60,
    )
    return {
        "optimist": optimist,
        "experiment": experiment,
        "models": {name: lambda prompts, seed: _rows(0.0, len(prompts), seed % 2**32) for name in ("a", "b")},
        "embed": lambda images: images,
        "embed_text": lambda prompts: _rows(0.0, len(prompts), 5),
        "url_of": lambda image: f"https://images.example/{abs(image[0]):.6f}.png",
        "generators": {
            name: lambda size, seed, shift=shift: _rows(shift, size, seed) for name, shift in shifts.items()
        },
        "features": lambda samples: samples,
        "dinov2": lambda samples: samples[:, :4],
        "reward": lambda samples: samples[:, 0],
        "real": _rows(0.0, 400, 4),
        "real_dinov2": _rows(0.0, 400, 4, width=4),
    }


def deploy(url: str) -> dict[str, Any]:
    with Optimist(url) as optimist:
        experiment = optimist.create_experiment("to-export", ["a", "b"], reference=(np.zeros(4), np.eye(4)))
        for seed in range(3):
            pick = experiment.ask()
            assert pick is not None
            pick.tell(_rows(0.0, pick.size, seed, 4))
    return {}


def retraction(url: str) -> dict[str, Any]:
    optimist = Optimist(url)
    names = ["step-10k", "step-20k"]
    experiment = optimist.create_experiment("checkpoints", names, reference=(np.zeros(8), np.eye(8)), stop=False)
    for pick in experiment.picks(40):
        pick.tell(_rows(0.0, pick.size, pick.seed, 8) * (255.0 if pick.number == 3 else 1.0))
    return {"optimist": optimist}


def pairs(url: str) -> dict[str, Any]:
    real = _rows(0.0, 400, 1, 64)
    np.save("real.npy", real)
    for level in ("0.7", "0.9", "1.0"):
        np.save(f"psi-{level}.npy", float(level) * _rows(0.3, 300, 2, 64))
    same = {"network": lambda latents: latents, "features": lambda images: images}

    def checkpoint(shift: float) -> Callable[..., np.ndarray]:
        return lambda size, seeds: np.stack([np.random.default_rng(seed).normal(shift, 1.0, 64) for seed in seeds])

    checkpoints = {f"step-{place}0k": checkpoint(0.05 * abs(place - 7)) for place in range(12)}
    return {"optimist": Optimist(url), "real": real, "checkpoints": checkpoints, **same}


def gate(url: str) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    passes, seconds = rng.random(400) < 0.8, rng.lognormal(0.0, 0.2, 400)
    changed = rng.random(400)
    scores = {"production": passes, "candidate": (passes & (changed > 0.01)) | (changed > 0.98)}
    for name, each in scores.items():
        known = zip(each.tolist(), seconds.tolist(), strict=True)
        rows = [{"id": f"q{i}", "score": float(one), "latency": took} for i, (one, took) in enumerate(known)]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def model(mean: float) -> Callable[..., np.ndarray]:
        return lambda size, seeds: np.array([[np.random.default_rng(seed).normal(mean, 1.0)] for seed in seeds])

    client = Optimist(url)
    means = {"big": 1.0, "mid": 0.5, "base": 0.5, "small": 0.0}
    ranked = client.create_experiment("ranked", [*means], metric="mean", policy="uniform", stop=False)
    ranked.run({name: model(mean) for name, mean in means.items()}, max_samples=240, progress=False)
    return {"client": client, "ranked": ranked, "candidate": model(0.95), "production": model(1.0)}


def mixtures(url: str) -> dict[str, Any]:
    shifts = {"a": 0.0, "b": 2.0, "c": 4.0}
    generators = {name: lambda size, seed, shift=shift: _rows(shift, size, seed) for name, shift in shifts.items()}
    arrays = {name: generators[name](120, place) for place, name in enumerate(shifts)}
    for name, rows in arrays.items():
        np.save(f"gen-{name}.npy", rows)
    kernel = {"name": "gaussian", "sigma": 2.0, "features": 16}
    with Optimist(url) as optimist:
        experiment = optimist.create_experiment("running", list(shifts), metric="rke", kernel=kernel, dimension=8)
        for pick in experiment.picks(60):
            pick.tell(generators[pick.generator](pick.size, pick.seed))
    return {**arrays, "generators": generators, "features": lambda samples: samples}


def coming_from(url: str) -> dict[str, Any]:
    rows = {f"features_{name}": _rows(shift, 60, 3) for name, shift in (("old", 1.5), ("new", 0.0))}
    skill = {"large": 0.9, "small": 0.5}
    answers = {
        f"answer_{name}": lambda size, seed, prompts, p=p: np.random.default_rng(seed).random(size) < p
        for name, p in skill.items()
    }
    judge = {"questions": [f"question {number}" for number in range(50)], "is_right": lambda right: right * 1.0}
    return {**sdk(url), **rows, "real_features": _rows(0.0, 400, 4), **answers, **judge}


def routing(url: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((2, 384)) / 20.0
    kinds = {f"task {number}": number % 2 for number in range(80)}
    return {
        "prompts": list(kinds),
        "embed": lambda prompt: centres[kinds[prompt]] + rng.standard_normal(384) / 100.0,
        "models": {
            name: lambda prompt, place=place: kinds[prompt] == place for place, name in enumerate(("large", "small"))
        },
        "passed": float,
    }


def logs(url: str) -> dict[str, Any]:
    shutil.copytree(DATA / "logs", "logs")
    return {}


def audits(url: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    with Path("answers.jsonl").open("w") as stream:
        for model, better in (("ada", 0.3), ("bob", 0.0)):
            for place, quality in enumerate(better + rng.standard_normal(300)):
                row = {"id": f"q{place}", "model": model, "judge": quality + 0.5 * rng.standard_normal()}
                stream.write(json.dumps(row | ({"human": quality} if place < 60 else {})) + "\n")
    return {}


PRELUDES: dict[str, Prelude] = {
    "audits.md": audits,
    "coming-from.md": coming_from,
    "logs.md": logs,
    "sdk.md": sdk,
    "metrics.md": metrics,
    "mixtures.md": mixtures,
    "deploy.md": deploy,
    "gate.md": gate,
    "pairs.md": pairs,
    "retraction.md": retraction,
    "routing.md": routing,
}
