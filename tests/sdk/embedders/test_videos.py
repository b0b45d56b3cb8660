"""The video embedder with a random checkpoint, as wide as the true one but of two layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from optimist_client.embedders import VideoMAE


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
