"""What is taken for an image, what is not, and the square that a network sees of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optimist_client.embedders.pixels import IMAGENET, framed, to_pixels


def test_arrays_tensors_and_pictures_of_the_same_image_are_the_same(pictures: np.ndarray):
    image = pytest.importorskip("PIL.Image")
    colour = np.stack([pictures, pictures // 2, 255 - pictures], axis=-1)
    expected = torch.from_numpy(colour).permute(0, 3, 1, 2) / 255
    given = [
        colour,
        list(colour),
        colour / 255.0,
        (colour / 255.0).astype(np.float32),
        torch.from_numpy(colour).permute(0, 3, 1, 2),
        expected.double().requires_grad_(),
        [image.fromarray(array) for array in colour],
    ]
    for images in given:
        found = to_pixels(images)
        assert found[0].dtype == torch.float32
        torch.testing.assert_close(torch.stack(found), expected)


def test_grey_images_and_images_of_several_sizes_are_taken(pictures: np.ndarray):
    small, grey = to_pixels([pictures[0][:20], torch.from_numpy(pictures[1])[None]])
    assert (small.shape, grey.shape) == ((3, 20, 32), (3, 40, 32))
    assert torch.equal(grey[0], grey[2])
    assert torch.equal(small[1], torch.from_numpy(pictures[0][:20]) / 255)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (np.full((8, 8, 3), -0.5), "from 0 to 1"),
        (np.full((8, 8, 3), np.nan), "from 0 to 1"),
        (np.full((8, 8, 3), 300), "uint8"),
        (np.zeros((3, 8, 8), np.uint8), r"\(h, w, 3\), got \(3, 8, 8\)"),
        (torch.zeros(8, 8, 3), r"\(3, h, w\), got \(8, 8, 3\)"),
        (np.zeros((8, 8, 4), np.uint8), r"got \(8, 8, 4\)"),
        (np.zeros(8), r"got \(8,\)"),
        ("cat.png", "an image of numbers"),
    ],
)
def test_what_is_no_image_is_refused(image, expected: str):
    with pytest.raises(ValueError, match=expected):
        to_pixels([image])


@pytest.mark.parametrize("shape", [(300, 500), (500, 300), (31, 47), (256, 256)])
def test_the_middle_square_is_what_pillow_makes_of_the_image(shape: tuple[int, int]):
    """Pillow's antialiased bicubic, by which the networks' authors resized; it rounds to grey levels in between."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (9, 9, 3), np.uint8)
    array = np.asarray(image.fromarray(coarse).resize(shape[::-1], image.Resampling.BICUBIC))
    scale = 256 / min(shape)
    height, width = (round(side * scale) for side in shape)
    resized = np.asarray(image.fromarray(array).resize((width, height), image.Resampling.BICUBIC))
    top, left = (height - 224) // 2, (width - 224) // 2
    expected = (resized[top : top + 224, left : left + 224] / 255 - IMAGENET[0]) / IMAGENET[1]
    found = framed(to_pixels([array])[0], 224, IMAGENET, 256)
    assert found.shape == (3, 224, 224)
    # Half a grey level of either rounding.
    np.testing.assert_allclose(found.permute(1, 2, 0).numpy(), expected, atol=1.5 / 255 / 0.22)
