"""Generators with prompts: images of handwritten digits for texts such as "a handwritten 3"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from optimist.simulation.digits.generators import GaussianMixture, Generator, KernelDensity, TruncatedVAE, mixture
from optimist.simulation.digits.networks import unpack
from optimist.simulation.digits.recipe import Recipe
from optimist_client.errors import FixError

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
