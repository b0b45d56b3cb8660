"""The demo's data: scikit-learn's 1,797 handwritten digits, a feature network, and generators fitted to them.

What was fitted is kept on disk in one safetensors file, which records its recipe and a checksum.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from optimist.places import cache_directory
from optimist.simulation.digits.generators import (
    Generator,
    PromptedGenerator,
    Recipe,
    classes,
    family,
    forward,
    generators,
    hidden,
    prompted,
    softmax,
    unpack,
)
from optimist_client.installed import install_hint
from optimist_client.progress import counted
from optimist_client.references import Moments, moments_of
from optimist_client.replacing import replaced

logger = logging.getLogger(__name__)

# Increase this whenever fitting.py gives different tensors for the same recipe.
_VERSION = "2"


def read_fit(path: Path, recipe: str) -> dict[str, np.ndarray] | None:
    """The tensors at `path`; None if they are missing, damaged, or not fitted with `recipe` (a digest).

    Logs a warning for a damaged file, but not for a missing or outdated one.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            origin = file.metadata() or {}
            if (origin.get("version"), origin.get("recipe")) != (_VERSION, recipe):
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        logger.warning("%s cannot be read (%s): fitting again", path, error)
        return None
    if origin.get("content") != _checksum(tensors):
        logger.warning("%s is damaged (its checksum does not match): fitting again", path)
        return None
    return tensors


def write_fit(path: Path, recipe: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write `tensors` to `path` atomically, so that no process ever reads an incomplete file.

    Raises OSError if the directory cannot be created or written.
    """
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    body = save(whole, {"version": _VERSION, "recipe": recipe, "content": _checksum(whole)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as part:
        part.write_bytes(body)


def _checksum(tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes, because safetensors has no checksum."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


KERNEL: dict[str, Any] = {"name": "gaussian", "sigma": 5.0, "features": 256}
"""σ is half the median distance between features of real digits, so that the kernel distinguishes the digits."""
PROMPT_KERNEL: dict[str, Any] = {"name": "gaussian", "sigma": 2.5}
"""The embeddings of two digits are 5.4 to 10.3 apart, so that this kernel distinguishes all of them."""


@dataclass(frozen=True)
class Digits:
    """Real images, the network that turns images into features, and the generators to compare by name.

    `images` (1797, 64) float32 in [0, 1], `labels` (1797,) int64 the digits they show; `accuracy` is the network's
    accuracy on images held out from its training. `generators` are of many kinds; `family` are the demo's, most of
    which are one model that answers a seed alike; `prompted` take prompts.
    """

    images: np.ndarray
    labels: np.ndarray
    network: Sequence[tuple[np.ndarray, np.ndarray]]
    accuracy: float
    generators: dict[str, Generator]
    family: dict[str, Generator]
    prompted: dict[str, PromptedGenerator]

    def features(self, images: np.ndarray) -> np.ndarray:
        """Features (n, 64) float32 of `images` (n, 64): the network's last hidden layer, after its ReLU."""
        return hidden(images.astype(np.float64), self.network[:-1]).astype(np.float32)

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """Class probabilities (n, 10) float32 of `images` (n, 64): the network's softmax."""
        return softmax(forward(images.astype(np.float64), self.network)).astype(np.float32)

    def embeddings(self, prompts: Sequence[str]) -> np.ndarray:
        """Embeddings (n, 64) float32 of `prompts`: the mean features of the real images of the digit they ask for.

        As in models that embed both, a text is embedded close to its images, so that similar digits have similar
        prompts. Raises FixError for a prompt that is not in `generators.TEXTS`.
        """
        return self._embedded_classes[classes(prompts)]

    @cached_property
    def _embedded_classes(self) -> np.ndarray:
        features = self.features(self.images)
        return np.stack([features[self.labels == digit].mean(axis=0) for digit in range(10)])

    def reference(self) -> Moments:
        """The moments of the features (1797, 64) of all real images, and some of these features."""
        return moments_of(self.features(self.images))


def load(cache: Path | None = None, progress: bool = True, recipe: Recipe | None = None) -> Digits:
    """Load the digits fitted with `recipe` (default: the demo's) from the directory `cache`, or fit them.

    Fitting takes some seconds (shown on stderr if `progress`), and its result is stored in the cache. `cache` defaults
    to `cache_directory()`. Raises OSError if the cache cannot be written, ModuleNotFoundError if fitting needs a
    package of the `demo` extra that is not installed.
    """
    recipe = recipe or Recipe()
    path = (cache or cache_directory()) / "digits.safetensors"
    tensors = read_fit(path, recipe.digest())
    if tensors is None:
        tensors = _fit(recipe, progress)
        write_fit(path, recipe.digest(), tensors)
    made = generators(tensors, recipe)
    return Digits(
        images=tensors["images"],
        labels=tensors["labels"],
        network=unpack("network", tensors),
        accuracy=tensors["accuracy"].item(),
        generators=made,
        family=family(unpack("decoder", tensors), {"pca-gaussian": made["pca-gaussian"]}),
        prompted=prompted(tensors, recipe),
    )


def _fit(recipe: Recipe, progress: bool) -> dict[str, np.ndarray]:
    # Imported here because cached fits need neither torch nor scikit-learn, so that workers start much faster.
    try:
        from optimist.simulation.digits.fitting import fit, steps
    except ModuleNotFoundError as missing:
        message = f"fitting the digits' generators needs {missing.name}: {install_hint('demo')}"
        raise ModuleNotFoundError(message, name=missing.name) from missing
    with counted("fitting the digits' generators", steps(recipe), wanted=progress) as step:
        return fit(recipe, lambda what: step(1, what))
