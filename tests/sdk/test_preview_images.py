"""What becomes of samples that are shown: images are made small, texts are cut."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from optimist_client import FixError, images
from optimist_client.previews import (
    LARGEST,
    audio_kind,
    compared,
    encoded,
    image_kind,
    previews_of,
    recognised,
    request_of,
)
from tests.support.configs import config_of

NOISE = np.random.default_rng(0).integers(0, 256, (900, 600, 3), dtype=np.uint8)


def opened(body: bytes | str) -> Any:
    assert isinstance(body, bytes)
    assert len(body) <= LARGEST
    return Image.open(io.BytesIO(body))


def test_large_images_become_thumbnails(tmp_path: Path):
    image = Image.fromarray(NOISE)
    image.save(tmp_path / "noise.png")
    transparent = image.copy()
    transparent.putalpha(128)
    for preview in (image, NOISE, NOISE / 255.0, tmp_path / "noise.png", (tmp_path / "noise.png").read_bytes()):
        found = opened(encoded(preview))
        assert (found.format, found.size) == ("JPEG", (171, 256))
    assert opened(encoded(transparent)).getpixel((0, 0)) != (0, 0, 0)


def test_small_images_stay_exactly_as_they_are():
    digit = np.arange(64, dtype=np.uint8).reshape(8, 8)
    body = encoded(digit)
    assert (np.asarray(opened(body)) == digit).all()
    assert isinstance(body, bytes)
    assert encoded(body) == body, "the bytes of a file are sent unchanged"
    channels_first = np.stack([digit, digit, digit])
    assert np.asarray(opened(encoded(channels_first))).shape == (8, 8, 3)
    assert np.asarray(opened(encoded(digit[..., None]))).shape == (8, 8)


def test_a_file_of_the_largest_size_is_sent_unchanged(tmp_path: Path):
    body = encoded(NOISE[:8, :8])
    assert isinstance(body, bytes)
    full = body.ljust(LARGEST, b"\0")
    (tmp_path / "full.png").write_bytes(full)
    assert encoded(tmp_path / "full.png") == full


def test_many_pixels_are_refused_by_both_sides_together():
    side = 2 * math.isqrt(images.PIXELS)
    with pytest.raises(FixError, match=f"found {side:,} × {side:,}"):
        images.check_pixels(side, side)
    images.check_pixels(images.PIXELS, 1)


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"ID3\x04\0", "audio/mpeg"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"OggS\0\x02", "audio/ogg"),
        (b"fLaC\0\0\0\x22", "audio/flac"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", None),
    ],
)
def test_sounds_are_known_by_their_first_bytes(begin: bytes, kind: str | None):
    assert audio_kind(begin) == kind


def test_texts_are_cut_at_whole_characters():
    assert encoded("short") == "short"
    cut = encoded("€" * LARGEST)
    assert isinstance(cut, str)
    assert len(cut.encode()) == LARGEST - LARGEST % 3


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2, 7)), b"<svg onload=alert(1)>", object()])
def test_anything_else_is_refused(wrong: object):
    with pytest.raises((ValueError, OSError)):
        encoded(wrong)


def test_sixteen_of_a_batch_are_sent_the_same_for_every_generator():
    texts = [f"sample {place}" for place in range(50)]
    request = request_of(texts, 100, [f"prompt {place}" for place in range(50)], {})
    assert len(request["previews"]) == 16
    assert all(one["text"].split()[1] == one["prompt"].split()[1] == f"{one['place']}" for one in request["previews"])
    other = request_of([text.upper() for text in texts], 100, [], {})
    assert other["previews"][0]["place"] == request["previews"][0]["place"]
    assert request_of([None, b"\xff\xd8\xff", None], None, [], {}) == {
        "start": None,
        "previews": [{"place": 1, "image": base64.b64encode(b"\xff\xd8\xff").decode()}],
    }


def test_what_is_shown_without_being_asked():
    pixels = NOISE[None].repeat(2, 0)
    assert recognised(["a", "b"]) == ["a", "b"]
    assert recognised([Image.fromarray(NOISE)]) is not None
    assert recognised(pixels) is not None
    for hidden in ("text", np.zeros((5, 4)), [1, 2], [], {"features": [1]}, [b"raw"], pixels.astype(float), None):
        assert recognised(hidden) is None
    assert image_kind(b"<svg xmlns=") is None


def test_what_a_run_shows():
    def embed(samples: Any) -> Any: ...

    assert previews_of(0, str, embed) is None
    assert previews_of(8, None, None) is None, "what generators return are features"
    shown = previews_of(8, None, embed)
    assert (shown({"samples": ["a"], "clipscore": [1.0]}), shown(np.zeros((1, 4)))) == (["a"], None)
    chosen = previews_of(8, lambda samples: [text.upper() for text in samples], embed)
    assert chosen(["a"]) == ["A"]


def test_how_many_a_config_may_keep():
    given: dict[str, Any] = {"name": "x", "metric": "rke", "dimension": 2, "kernel": {"sigma": 1.0}}
    assert "previews" not in config_of(generators=["a"], **given).model_dump()
    assert config_of(generators=["a"], previews=256, **given).previews == 256
    with pytest.raises(ValueError, match="20 generators can have 204"):
        config_of(generators=[f"{g}" for g in range(20)], previews=205, **given)


def test_samples_are_compared_by_their_rows_or_a_projection_of_them():
    rng = np.random.default_rng(0)
    narrow = {"features": rng.standard_normal((9, 3)), "prompts": rng.standard_normal((9, 99))}
    assert np.allclose(compared(narrow, [2, 7]), narrow["features"][[2, 7]], rtol=1e-6)
    wide = rng.standard_normal((40, 2048))
    short = np.array(compared({"score": wide[:, 0], "features": wide.astype(np.float16)}, range(40)))
    assert short.shape == (40, 64)
    ratios = [
        np.linalg.norm(short[i] - short[j]) / np.linalg.norm(wide[i] - wide[j]) for i in range(40) for j in range(i)
    ]
    assert np.allclose(np.mean(ratios), 1.0, atol=0.05)
    assert np.std(ratios) < 0.12
    assert compared({"features": np.array([[1e300], [np.nan], [0.5]])}, [0, 1, 2]) == [[], [], [0.5]]
    assert compared({"score": np.array([1.0, 0.1])}, [1]) == [[0.1]]
    assert compared({}, [3]) == [[]]


def test_the_projection_is_the_same_for_all_versions():
    signs = np.array(compared({"features": np.eye(65)[:2]}, [0, 1])) > 0
    assert np.packbits(signs).tobytes().hex() == "5f82c2d9cfeb0fa321d7d982f8bd1045"
