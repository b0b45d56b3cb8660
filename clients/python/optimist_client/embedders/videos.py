"""Embedders of videos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimist_client.embedders.base import need
from optimist_client.embedders.networks import Network, name_of
from optimist_client.embedders.pixels import IMAGENET, framed, to_pixels
from optimist_client.errors import FixError

if TYPE_CHECKING:
    from torch import Tensor


class VideoMAE(Network):
    """VideoMAE, with transformers: the mean of its tokens, 768 features in "MCG-NJU/videomae-base".

    It replaces I3D, which is unmaintained and hardly sensitive to motion (Ge et al. 2024). A batch is a sequence of
    clips, each a sequence of frames in the forms that image embedders take. The network gets as many frames of a clip
    as it was trained with (16), evenly spaced from the first to the last. weights: a model of the hub, or a directory
    that `save_pretrained` wrote.
    """

    def __init__(
        self, weights: str | Path = "MCG-NJU/videomae-base", *, device: str | None = None, piece: int = 4
    ) -> None:
        network = need("transformers", "embed-video").VideoMAEModel.from_pretrained(weights)
        super().__init__(name_of(weights), network.config.hidden_size, network, device=device, piece=piece)

    def _outputs(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        clips = self._torch.stack([self._frames(clip) for clip in samples])
        return (self._network(pixel_values=clips).last_hidden_state.mean(1),)

    def _frames(self, clip: Any) -> Tensor:
        """The frames (16, 3, 224, 224) of a clip that are passed to the network."""
        if len(clip) == 0:
            raise FixError("expected clips of at least one frame")
        config = self._network.config
        seen = self._torch.linspace(0, len(clip) - 1, config.num_frames).round().long().tolist()
        frames = to_pixels([clip[index] for index in seen])
        return self._torch.stack([framed(frame.to(self._device), config.image_size, IMAGENET) for frame in frames])
