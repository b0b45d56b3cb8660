"""Generators of 8×8 digit images, also for prompts such as "a handwritten 3"; the recipe and networks they are made of.

Each is a pure function of (size, seed), with the same bits in every process. Only fitting the networks needs torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from optimist_client.errors import FixError

if TYPE_CHECKING:
    from torch import Tensor


ArrayT = TypeVar("ArrayT", np.ndarray, "Tensor")


def hidden(x: ArrayT, layers: Sequence[tuple[ArrayT, ArrayT]]) -> ArrayT:
    """Activations (n, width) after the last of `layers`, ReLU(x W + b) each, W (in, out), b (out,)."""
    for weight, bias in layers:
        x = (x @ weight + bias).clip(min=0)
    return x


def forward(x: ArrayT, layers: Sequence[tuple[ArrayT, ArrayT]]) -> ArrayT:
    """Outputs (n, out) of `layers`: ReLU after each but the last, which is linear."""
    weight, bias = layers[-1]
    return hidden(x, layers[:-1]) @ weight + bias


def softmax(logits: np.ndarray) -> np.ndarray:
    """Class probabilities (n, K) of `logits` (n, K), without overflow."""
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """1/(1 + e^−x) elementwise, without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * logits))


def pack(name: str, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
    """`layers` as named tensors, `name.0.weight` and so on; the inverse of `unpack`."""
    return {
        f"{name}.{i}.{part}": tensor
        for i, layer in enumerate(layers)
        for part, tensor in zip(("weight", "bias"), layer, strict=True)
    }


def unpack(name: str, tensors: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers that `pack` stored under `name`, in order."""
    depth = sum(key.startswith(f"{name}.") and key.endswith(".weight") for key in tensors)
    return [(tensors[f"{name}.{i}.weight"], tensors[f"{name}.{i}.bias"]) for i in range(depth)]


@dataclass(frozen=True)
class Recipe:
    """All parameters of a fit. Two equal recipes give the same generators.

    `bandwidth` is in units of the pixel range [0, 1]; `truncations` multiply the standard deviation of the VAE's latent
    vectors, as in the variance-controlled generators of the FID-UCB paper's experiments (equations.md §5).
    The `class_` parameters are for the generators that follow a prompt, which are fitted to each class separately; the
    temperatures multiply the standard deviation of the class's Gaussian.
    """

    seed: int = 0
    held_out: int = 360
    network_epochs: int = 40
    vae_epochs: int = 120
    latent: int = 10
    kl_weight: float = 0.25
    truncations: tuple[float, ...] = (0.5, 0.75, 1.0, 1.3)
    principal: int = 20
    components: int = 40
    bandwidth: float = 0.2
    class_temperatures: tuple[float, ...] = (0.3, 0.7)
    class_components: int = 4
    class_bandwidths: tuple[float, ...] = (0.05, 0.1)

    def digest(self) -> str:
        """The recipe's SHA-256 as a hexadecimal string. Fits with the same digest are interchangeable."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


class Generator(Protocol):
    """A generative model that can be sampled."""

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed` ≥ 0; FixError if either is negative."""
        ...


def _pixels(images: np.ndarray) -> np.ndarray:
    return images.clip(0.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class GaussianMixture:
    """Σ_k w_k N(m_k, F_kᵀF_k) over the coordinates of a linear basis, clipped to the pixel range.

    `weights` (K,), `means` (K, l), `factors` (K, l, l); an image is `origin` (64,) + coordinates @ `basis` (l, 64).
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    origin: np.ndarray
    basis: np.ndarray

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed`."""
        rng = np.random.default_rng(seed)
        component = rng.choice(len(self.weights), size=size, p=self.weights)
        coordinates = rng.standard_normal((size, self.means.shape[1]))
        for k in np.unique(component):
            rows = component == k
            coordinates[rows] = self.means[k] + coordinates[rows] @ self.factors[k]
        return _pixels(self.origin + coordinates @ self.basis)


@dataclass(frozen=True)
class KernelDensity:
    """Gaussian kernel density: one of `images` (n, 64) plus noise of standard deviation `bandwidth`, clipped."""

    images: np.ndarray
    bandwidth: float

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed`."""
        rng = np.random.default_rng(seed)
        centres = self.images[rng.integers(len(self.images), size=size)]
        return _pixels(centres + self.bandwidth * rng.standard_normal(centres.shape))


@dataclass(frozen=True)
class TruncatedVAE:
    """Decoder of a variational autoencoder on latent vectors N(0, truncation² I)."""

    decoder: Sequence[tuple[np.ndarray, np.ndarray]]
    truncation: float

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed`."""
        latent = len(self.decoder[0][0])
        z = self.truncation * np.random.default_rng(seed).standard_normal((size, latent))
        return _pixels(sigmoid(forward(z, self.decoder)))


def mixture(name: str, tensors: Mapping[str, np.ndarray]) -> GaussianMixture:
    """The mixture over principal coordinates that `fitting.fit` stored as `name`."""
    weights, means, factors = (tensors[f"{name}.{part}"] for part in ("weights", "means", "factors"))
    return GaussianMixture(weights, means, factors, tensors["pca.mean"], tensors["pca.basis"])


def generators(tensors: Mapping[str, np.ndarray], recipe: Recipe) -> dict[str, Generator]:
    """The demo's generators by name, from the tensors that `fitting.fit` returned for `recipe`."""
    images = tensors["images"].astype(np.float64)
    origin, basis = tensors["pca.mean"], tensors["pca.basis"]
    weight = np.ones(1)

    def gaussian(deviations: np.ndarray, origin: np.ndarray, basis: np.ndarray) -> GaussianMixture:
        return GaussianMixture(weight, np.zeros((1, len(basis))), np.diag(deviations)[None], origin, basis)

    decoder = unpack("decoder", tensors)
    return {
        **{f"vae-{truncation}": TruncatedVAE(decoder, truncation) for truncation in recipe.truncations},
        f"gmm-{recipe.components}": mixture("gmm", tensors),
        f"kde-{recipe.bandwidth}": KernelDensity(images, recipe.bandwidth),
        "pca-gaussian": gaussian(tensors["pca.deviations"], origin, basis),
        "pixel-gaussian": gaussian(images.std(axis=0), images.mean(axis=0), np.eye(images.shape[1])),
    }


def family(
    decoder: Sequence[tuple[np.ndarray, np.ndarray]],
    other: Mapping[str, Generator],
    levels: Sequence[float] = (0.5, 0.75, 1.0, 1.1, 1.2, 1.3, 1.4),
) -> dict[str, Generator]:
    """The generators that the demo compares by name: the VAE truncated at these levels, which answer one seed alike,
    and `other`."""
    return {**{f"vae-{level}": TruncatedVAE(decoder, level) for level in levels}, **other}


TEXTS = tuple(f"a handwritten {digit}" for digit in range(10))
"""The prompt of each class."""


class PromptedGenerator(Protocol):
    """A generative model that takes prompts."""

    def sample(self, prompts: Sequence[str], seed: int) -> np.ndarray:
        """One image for each of `prompts` (n, 64), float32 in [0, 1], drawn with `seed` ≥ 0.

        Raises FixError for a prompt that is not in `TEXTS`, or a negative seed.
        """
        ...


def classes(prompts: Sequence[str]) -> np.ndarray:
    """The digit (n,), int64, that each prompt asks for. Raises FixError for a prompt that is not in `TEXTS`."""
    try:
        return np.array([TEXTS.index(prompt) for prompt in prompts], dtype=np.int64)
    except ValueError:
        unknown = next(prompt for prompt in prompts if prompt not in TEXTS)
        raise FixError(f"expected a prompt such as {TEXTS[3]!r}, got {unknown!r}") from None


@dataclass(frozen=True)
class ByClass:
    """Follows its prompts, with one generator for each of the ten digits."""

    generators: Sequence[Generator]

    def sample(self, prompts: Sequence[str], seed: int) -> np.ndarray:
        """One image (64,) for each prompt, drawn with `seed`; raises FixError for an unknown prompt."""
        asked = classes(prompts)
        # Each digit has its own seed; otherwise all digits would have the same noise.
        seeds = np.random.SeedSequence(seed).generate_state(len(self.generators), np.uint64)
        images = np.empty((len(asked), 64), np.float32)
        for digit in np.unique(asked):
            rows = asked == digit
            images[rows] = self.generators[digit].sample(int(rows.sum()), int(seeds[digit]))
        return images


@dataclass(frozen=True)
class PromptIgnoring:
    """Ignores its prompts and samples one unconditional generator."""

    generator: Generator

    def sample(self, prompts: Sequence[str], seed: int) -> np.ndarray:
        """One image (64,) for each prompt, drawn with `seed`; raises FixError for an unknown prompt."""
        return self.generator.sample(len(classes(prompts)), seed)


def prompted(tensors: Mapping[str, np.ndarray], recipe: Recipe) -> dict[str, PromptedGenerator]:
    """The generators of the demo with prompts by name, from the tensors that `fitting.fit` returned for `recipe`.

    All but the last follow their prompts. The last one ignores them, which Conditional-Vendi counts as diversity. Its
    images are so much less diverse that it is still not the best; by Information-Vendi it is the worst.
    """
    images, labels = tensors["images"].astype(np.float64), tensors["labels"]
    by_digit = [images[labels == digit] for digit in range(10)]
    gaussians = [mixture(f"class.gaussian.{digit}", tensors) for digit in range(10)]
    truncation = recipe.truncations[0]

    def cooled(gaussian: GaussianMixture, temperature: float) -> GaussianMixture:
        return replace(gaussian, factors=temperature * gaussian.factors)

    return {
        **{
            f"class-gaussian-{temperature}": ByClass([cooled(gaussian, temperature) for gaussian in gaussians])
            for temperature in recipe.class_temperatures
        },
        f"class-gmm-{recipe.class_components}": ByClass(
            [mixture(f"class.gmm.{digit}", tensors) for digit in range(10)]
        ),
        **{
            f"class-kde-{bandwidth}": ByClass([KernelDensity(own, bandwidth) for own in by_digit])
            for bandwidth in recipe.class_bandwidths
        },
        f"heedless-vae-{truncation}": PromptIgnoring(TruncatedVAE(unpack("decoder", tensors), truncation)),
    }
