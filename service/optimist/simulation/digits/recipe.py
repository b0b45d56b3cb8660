"""How the demo's networks and generators are fitted to the handwritten digits."""

import hashlib
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a fit yields; two equal recipes yield the same generators.

    `bandwidth` is in units of the pixel range [0, 1]; `truncations` multiply the standard deviation of the VAE's latent
    vectors, which makes the variance-controlled generators of the FID-UCB paper's experiments (equations.md §5).
    The `class_` ones are of the generators that follow a prompt, which are fitted to each class alone; the
    temperatures multiply the standard deviation of its Gaussian.
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
        """The recipe's SHA-256 as a hexadecimal string: fits of one digest are interchangeable."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
