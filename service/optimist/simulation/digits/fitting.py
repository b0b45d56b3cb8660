"""Fits a feature network and the generators to scikit-learn's handwritten digits.

All random numbers come from numpy's seeded generators and all arithmetic is float64, so that fits on different
machines are close enough for the generators to have the same scores and ranks.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional

from optimist.simulation.digits.generators import Recipe, forward, pack

Layers = list[tuple[Tensor, Tensor]]


def fit(recipe: Recipe, advance: Callable[[str], None]) -> dict[str, np.ndarray]:
    """Fit all tensors of `world.Digits`, by name. `advance` is called with a description after every step.

    There are `steps(recipe)` steps, which take some seconds in total on two cores.
    """
    pixels, labels = load_digits(return_X_y=True)
    images, labels = np.asarray(pixels) / 16.0, np.asarray(labels)
    # The matrices are small. On two busy cores several threads took 72 s because they waited for each other, one 15 s.
    with threadpool_limits(1):
        network, accuracy = _fit_network(images, labels, recipe, lambda: advance("feature network"))
        decoder = _fit_vae(images, recipe, lambda: advance("variational autoencoder"))
        mixture = _fit_mixture(images, recipe, lambda: advance("Gaussian mixture"))
        coordinates = (images - mixture["pca.mean"]) @ mixture["pca.basis"].T
        classes = _fit_classes(coordinates, labels, recipe, lambda: advance("generators of one digit"))
    return {
        "images": images.astype(np.float32),
        "labels": labels.astype(np.int64),
        "accuracy": np.array(accuracy),
        **pack("network", _arrays(network)),
        **pack("decoder", _arrays(decoder)),
        **mixture,
        **classes,
    }


def steps(recipe: Recipe) -> int:
    """The number of times that `fit` calls `advance`."""
    return recipe.network_epochs + recipe.vae_epochs + 2


def _fit_network(
    images: np.ndarray, labels: np.ndarray, recipe: Recipe, advance: Callable[[], None]
) -> tuple[Layers, float]:
    """A classifier 64 → 128 → 64 → 10 and its accuracy on the images held out from its training."""
    rng = np.random.default_rng([recipe.seed, 0])
    order = rng.permutation(len(images))
    held_out, training = np.split(order, [recipe.held_out])
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    layers = _initial(rng, 64, 128, 64, 10)
    _standardise(layers, x[training])

    def loss(rows: np.ndarray) -> Tensor:
        return functional.cross_entropy(forward(x[rows], layers), y[rows], label_smoothing=0.1)

    _train(layers, loss, rng, training, recipe.network_epochs, advance, learning_rate=1e-3)
    with torch.no_grad():
        correct = forward(x[held_out], layers).argmax(dim=1) == y[held_out]
    return layers, correct.double().mean().item()


def _fit_vae(images: np.ndarray, recipe: Recipe, advance: Callable[[], None]) -> Layers:
    """The decoder (Bernoulli pixels) of a β-VAE: reconstruction + kl_weight · KL(q(z|x) ‖ N(0, I))."""
    rng = np.random.default_rng([recipe.seed, 1])
    x = torch.from_numpy(images)
    encoder = _initial(rng, 64, 128, 2 * recipe.latent)
    decoder = _initial(rng, recipe.latent, 128, 128, 64)

    def loss(rows: np.ndarray) -> Tensor:
        mean, log_variance = forward(x[rows], encoder).chunk(2, dim=1)
        z = mean + (0.5 * log_variance).exp() * torch.from_numpy(rng.standard_normal(mean.shape))
        reconstruction = functional.binary_cross_entropy_with_logits(forward(z, decoder), x[rows], reduction="sum")
        divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum()
        return (reconstruction + recipe.kl_weight * divergence) / len(rows)

    _train(encoder + decoder, loss, rng, np.arange(len(x)), recipe.vae_epochs, advance, learning_rate=2e-3)
    return decoder


def _fit_mixture(images: np.ndarray, recipe: Recipe, advance: Callable[[], None]) -> dict[str, np.ndarray]:
    """Principal components, and a mixture of full Gaussians over their coordinates."""
    pca = PCA(recipe.principal, svd_solver="full").fit(images)
    mixture = GaussianMixture(recipe.components, reg_covar=1e-3, max_iter=500, random_state=recipe.seed)
    mixture.fit(pca.transform(images))
    advance()
    return {
        "pca.mean": np.asarray(pca.mean_),
        "pca.basis": np.asarray(pca.components_),
        "pca.deviations": np.sqrt(pca.explained_variance_),
        **_parameters("gmm", mixture),
    }


def _fit_classes(
    coordinates: np.ndarray, labels: np.ndarray, recipe: Recipe, advance: Callable[[], None]
) -> dict[str, np.ndarray]:
    """A full Gaussian and a mixture of Gaussians for the principal coordinates of each class."""
    tensors: dict[str, np.ndarray] = {}
    for name, components in [("gaussian", 1), ("gmm", recipe.class_components)]:
        for digit in range(10):
            mixture = GaussianMixture(components, reg_covar=1e-3, max_iter=500, random_state=recipe.seed)
            tensors |= _parameters(f"class.{name}.{digit}", mixture.fit(coordinates[labels == digit]))
    advance()
    return tensors


def _parameters(name: str, mixture: GaussianMixture) -> dict[str, np.ndarray]:
    """The parameters of a fitted mixture for `generators.GaussianMixture`, as `name.weights` and so on."""
    return {
        f"{name}.weights": np.asarray(mixture.weights_),
        f"{name}.means": np.asarray(mixture.means_),
        f"{name}.factors": np.linalg.cholesky(np.asarray(mixture.covariances_)).transpose(0, 2, 1),
    }


def _initial(rng: np.random.Generator, *widths: int) -> Layers:
    """Layers of these widths with He initialisation."""
    return [
        (
            torch.from_numpy(rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in)).requires_grad_(),
            torch.zeros(fan_out, dtype=torch.float64, requires_grad=True),
        )
        for fan_in, fan_out in pairwise(widths)
    ]


@torch.no_grad()
def _standardise(layers: Layers, x: Tensor) -> None:
    """Give every hidden unit mean 0 and variance 1 on `x` before its ReLU.

    Otherwise up to a quarter of the features never fire, and the reference covariance has so much less rank.
    """
    for weight, bias in layers[:-1]:
        weight /= (x @ weight).std(dim=0)
        bias -= (x @ weight).mean(dim=0)
        x = (x @ weight + bias).clip(min=0)


def _train(
    layers: Layers,
    loss: Callable[[np.ndarray], Tensor],
    rng: np.random.Generator,
    rows: np.ndarray,
    epochs: int,
    advance: Callable[[], None],
    learning_rate: float,
) -> None:
    """Minimise `loss` of shuffled batches of `rows` by Adam with a cosine schedule; `advance` after every epoch."""
    optimizer = torch.optim.Adam([tensor for layer in layers for tensor in layer], lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(rows), -(-len(rows) // 128)):
            optimizer.zero_grad()
            loss(batch).backward()
            optimizer.step()
        schedule.step()
        advance()


def _arrays(layers: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(weight.detach().numpy(), bias.detach().numpy()) for weight, bias in layers]
