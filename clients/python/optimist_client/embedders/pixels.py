"""Converts images to tensors with the size and scale that a network expects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from optimist_client.embedders.base import need
from optimist_client.errors import FixError
from optimist_client.images import as_seen

if TYPE_CHECKING:
    from torch import Tensor

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's channels, with which most networks were trained."""


def to_pixels(images: Iterable[Any]) -> list[Tensor]:
    """Convert each image to a tensor (3, h, w), float32 in [0, 1]. Images may differ in size.

    PIL images may have any mode of `images.as_seen`.
    Arrays are (h, w, 3), or (h, w) in grey; torch tensors are (3, h, w) or (1, h, w), on any device.
    Integers must be uint8 in [0, 255], floats must lie in [0, 1]. Raises FixError for anything else.
    """
    return [_pixels(image) for image in images]


def framed(
    image: Tensor,
    size: int,
    statistics: tuple[tuple[float, ...], tuple[float, ...]],
    resize: int | None = None,
    ratio: int = 64,
) -> Tensor:
    """Resize the shorter side to `resize` (None: `size`), crop the centre (3, size, size), and normalise.

    Resizing is bicubic with antialiasing: without it, features of large images depend on the resizing method (Parmar
    et al. 2022). Raises FixError where one side is more than `ratio` times the other, as the shorter one is
    enlarged to the network's size.
    """
    torch = need("torch", "embed-images")
    height, width = image.shape[-2:]
    if max(height, width) > ratio * min(height, width):
        raise FixError(f"expected an image with sides of at most {ratio} : 1, got {height:,} × {width:,}")
    scale = (resize or size) / min(height, width)
    shape = [max(size, round(side * scale)) for side in (height, width)]
    resized = torch.nn.functional.interpolate(image[None], size=shape, mode="bicubic", antialias=True)[0].clamp(0, 1)
    top, left = ((side - size) // 2 for side in shape)
    mean, deviation = (torch.tensor(values, device=image.device).reshape(3, 1, 1) for values in statistics)
    return (resized[:, top : top + size, left : left + size] - mean) / deviation


def _pixels(image: Any) -> Tensor:
    torch = need("torch", "embed-images")
    if isinstance(image, torch.Tensor):
        tensor, order = image.detach(), "(3, h, w)"
    else:
        array = np.asarray(as_seen(image) if hasattr(image, "getexif") else image)
        if array.dtype.kind not in "fiu":
            raise FixError(f"expected an image of numbers, got dtype {array.dtype}")
        # Copy the array: images are often read-only arrays, and tensors cannot be read-only.
        tensor, order = torch.from_numpy(np.array(array[..., None] if array.ndim == 2 else array)), "(h, w, 3)"
        tensor = tensor.movedim(-1, 0) if tensor.ndim == 3 else tensor
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3):
        raise FixError(f"expected images of shape {order}, got {(*np.shape(image),)}")
    if tensor.is_floating_point():
        tensor = tensor.float()
        if not bool(((tensor >= 0) & (tensor <= 1)).all()):
            raise FixError("expected floats from 0 to 1, found others: rescale images from [-1, 1] to [0, 1] first")
    elif tensor.dtype == torch.uint8:
        tensor = tensor.float() / 255
    else:
        raise FixError(f"expected images of uint8, or of floats from 0 to 1, got {tensor.dtype}")
    return tensor.expand(3, -1, -1)
