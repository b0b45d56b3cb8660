"""Benchmark problems from feature files that are not part of this repository: recorded samples of real generators."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from problems import Comparison

from optimist.simulation.sources import ArraySource, SourceSet

PRINCIPAL = 64
"""Number of directions of largest variance in the reference onto which the 2048 features are projected."""
SENTENCES = {"name": "gaussian", "sigma": 0.6, "features": 64}
"""For text embeddings of unit length."""


def comparisons(folder: Path) -> dict[str, Comparison]:
    """The comparisons whose files are in the folder, by name."""
    found = {
        "mnist-fid": Comparison("mnist_lenet_generators, FID, d = 84", "fid", partial(_mnist, folder, "fid")),
        "mnist-is": Comparison("mnist_lenet_generators, IS", "is", partial(_mnist, folder, "is")),
        "cifar10-fid": Comparison(
            "cifar10_ref2048, FID on 64 principal directions", "fid", partial(_cifar10, folder, "fid"), rounds=150
        ),
        "cifar10-is": Comparison(
            "cifar10_ref2048, IS, 1000 classes", "is", partial(_cifar10, folder, "is"), rounds=150
        ),
        "llmfao-rke": Comparison("llmfao_minilm, RKE", "rke", partial(_llmfao, folder), rounds=50, batch=2),
        "pakucb-rke": Comparison("pakucb_code_minilm, RKE", "rke", partial(_pakucb, folder), rounds=300),
    }
    files = {name: _FILES[name.partition("-")[0]] for name in found}
    return {name: each for name, each in found.items() if (folder / f"{files[name]}.npz").exists()}


_FILES = {
    "mnist": "mnist_lenet_generators",
    "cifar10": "cifar10_ref2048_arms",
    "llmfao": "llmfao_minilm",
    "pakucb": "pakucb_code_minilm",
}


def _mnist(folder: Path, metric: str, size: int) -> SourceSet:
    with np.load(folder / "mnist_lenet_generators.npz") as data:
        names, tensor = data["arm_names"].tolist(), "prob" if metric == "is" else "feat"
        rows = data[f"arm_{tensor}"].astype(np.float64)
        real = data["real_feat"].astype(np.float64)
    if metric == "is":
        rows /= rows.sum(axis=2, keepdims=True)
    wanted = "probabilities" if metric == "is" else "features"
    settings = {} if metric == "is" else {"reference": (real.mean(axis=0), np.cov(real, rowvar=False))}
    return SourceSet({name: ArraySource({wanted: own}, name) for name, own in zip(names, rows, strict=True)}, settings)


def _cifar10(folder: Path, metric: str, size: int) -> SourceSet:
    """Skips the set of 64 DCGAN images; the others have 800 each."""
    with np.load(folder / "cifar10_ref2048_arms.npz") as data:
        names = [name for name in data["names"].tolist() if name != "csinva_dcgan_grid64"]
        tensor = "prob" if metric == "is" else "feat2048"
        rows = {name: data[f"{tensor}_{name}"].astype(np.float64) for name in names}
    if metric == "is":
        return SourceSet(
            {name: ArraySource({"probabilities": own / own.sum(1, keepdims=True)}, name) for name, own in rows.items()}
        )
    with np.load(folder / "cifar10_ref2048_stats.npz") as data:
        mean, covariance = data["mu"].astype(np.float64), data["sigma"].astype(np.float64)
    basis = np.linalg.eigh(covariance).eigenvectors[:, -PRINCIPAL:]
    sources = {name: ArraySource({"features": own @ basis}, name) for name, own in rows.items()}
    return SourceSet(sources, {"reference": (mean @ basis, basis.T @ covariance @ basis)})


def _llmfao(folder: Path, size: int) -> SourceSet:
    """Answers of families of language models to the same 19 prompts: embeddings (n, 384)."""
    families = {
        "claude": "Claude",
        "code-llama": "Code Llama",
        "luminous": "Luminous",
        "llama-2": "LLaMA-2",
        "gpt": "GPT ",
    }
    with np.load(folder / "llmfao_minilm.npz") as data:
        rows, made_by = data["emb"].astype(np.float64), data["models"][data["model"]]
    chosen = {
        family: rows[[name.startswith(prefix) for name in made_by.tolist()]] for family, prefix in families.items()
    }
    sources = {family: ArraySource({"features": own}, family) for family, own in chosen.items()}
    return SourceSet(sources, {"kernel": SENTENCES})


def _pakucb(folder: Path, size: int) -> SourceSet:
    """Ten completions by two language models of 164 coding tasks, in two languages: embeddings (1640, 384)."""
    with np.load(folder / "pakucb_code_minilm.npz") as data:
        sources = {
            f"{model}, {tasks}": ArraySource({"features": own.reshape(-1, 384).astype(np.float64)}, model)
            for tasks in ("human_eval", "human_eval_x_java2cpp")
            for model, own in zip(data["models"].tolist(), data[tasks], strict=True)
        }
    return SourceSet(sources, {"kernel": SENTENCES})
