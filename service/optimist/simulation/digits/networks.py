"""Dense networks, written once for torch (which fits them) and numpy (which runs them without loading torch)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Array = TypeVar("Array", np.ndarray, "Tensor")


def hidden(x: Array, layers: Sequence[tuple[Array, Array]]) -> Array:
    """Activations (n, width) after the last of `layers`, ReLU(x W + b) each, W (in, out), b (out,)."""
    for weight, bias in layers:
        x = (x @ weight + bias).clip(min=0)
    return x


def forward(x: Array, layers: Sequence[tuple[Array, Array]]) -> Array:
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
    """`layers` as named tensors, `name.0.weight` and so on; `unpack` is the way back."""
    return {
        f"{name}.{i}.{part}": tensor
        for i, layer in enumerate(layers)
        for part, tensor in zip(("weight", "bias"), layer, strict=True)
    }


def unpack(name: str, tensors: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers that `pack` stored under `name`, in order."""
    depth = sum(key.startswith(f"{name}.") and key.endswith(".weight") for key in tensors)
    return [(tensors[f"{name}.{i}.weight"], tensors[f"{name}.{i}.bias"]) for i in range(depth)]
