"""Images from three checkpoints: which epoch of a training run generates the best handwritten digits, by FID?

A small variational autoencoder is trained on scikit-learn's 1,797 real digits and saved three times.
In a clone of the repository:

    pip install -c constraints.txt '.[demo]'
    python examples/checkpoints.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

from local_service import options, serving
from optimist_client import Optimist
from optimist_client.embedders import Function

EPOCHS = (3, 10, 30)
LATENT = 10


class Autoencoder(nn.Module):
    """Maps images (n, 64) in [0, 1] to latent vectors (n, LATENT) and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, 64), nn.Sigmoid())

    def loss(self, images: Tensor) -> Tensor:
        """The negative evidence lower bound, with the divergence from the prior weighted by a quarter."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        error = nn.functional.binary_cross_entropy(self.decoder(latent), images, reduction="none").sum(1)
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1)
        return (error + 0.25 * divergence).mean()


def train(images: np.ndarray, directory: Path) -> Iterator[Path]:
    """Train until the last of `EPOCHS`, and yield the checkpoint of each of them when it is written."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the network is too small for several threads
    model, pixels = Autoencoder(), torch.from_numpy(images)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1, EPOCHS[-1] + 1):
        for batch in torch.randperm(len(pixels)).split(64):
            optimizer.zero_grad()
            model.loss(pixels[batch]).backward()
            optimizer.step()
        if epoch in EPOCHS:
            path = directory / f"epoch-{epoch}.safetensors"
            save_file(model.state_dict(), path)
            yield path


class Sampler:
    """Generates samples from one checkpoint."""

    def __init__(self, path: Path) -> None:
        self._model = Autoencoder()
        self._model.load_state_dict(load_file(path))

    @torch.inference_mode()
    def sample(self, size: int, seeds: list[int]) -> np.ndarray:
        """Images (size, 64), each from a seed of its own; checkpoints get the same seeds, so they can be compared."""
        noise = torch.stack([torch.randn(LATENT, generator=torch.Generator().manual_seed(one)) for one in seeds])
        return self._model.decoder(noise).numpy()


def digit_embedder(images: np.ndarray, labels: np.ndarray) -> Function:
    """Features from a classifier of these digits; for photographs use `InceptionV3()` or `Dinov2()` instead."""
    network = MLPClassifier((32,), early_stopping=True, random_state=0).fit(images, labels)
    weights, bias = network.coefs_[0], network.intercepts_[0]
    return Function("digits-mlp-32", 32, lambda batch: np.maximum(batch @ weights + bias, 0))


def main() -> None:
    """Train, then sample and tell until a decision is made."""
    chosen = options(__doc__, budget=6_000).parse_args()
    digits = load_digits()
    real = (digits.data / 16).astype(np.float32)
    embed = digit_embedder(real, digits.target)
    with tempfile.TemporaryDirectory() as directory, serving(chosen.url) as url, Optimist(url) as optimist:
        models = {path.stem: Sampler(path).sample for path in train(real, Path(directory))}
        experiment = optimist.create_experiment(
            chosen.name or "digit-checkpoints",
            list(models),
            reference=embed(real),
            embedding=embed.name,
            budget=chosen.budget,
        )
        print(experiment.run(models, embed))


if __name__ == "__main__":
    main()
