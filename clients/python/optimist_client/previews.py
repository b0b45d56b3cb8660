"""Previews of samples: images and texts, made small enough to be kept beside an experiment.

Pillow is imported when an image has to be encoded, numpy when an array has to be.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from optimist_client import images
from optimist_client.errors import FixError
from optimist_client.validation import is_mapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 2**16
"""Bytes of a preview."""
MAX_PREVIEWS = 1024
"""Previews that are kept of one generator: people look at each sample that they audit."""
MAX_SENT = 16
"""Previews that are sent of one batch."""
FEATURES = 64
"""Numbers by which a preview is compared with others."""
LARGEST_FEATURE = 1e30
"""The largest of these numbers."""
_SIGNATURES: dict[bytes, Literal["image/png", "image/jpeg"]] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
}


def _is_body(value: object) -> TypeGuard[bytes | bytearray]:
    return isinstance(value, bytes | bytearray | memoryview)


def check_previews(previews: int, generators: int, max_previews: int = 4096) -> None:
    """Raise FixError if so many previews of each of so many generators are more than `max_previews`."""
    if previews * generators > max_previews:
        raise FixError(
            f"previews: {previews} of each of {generators} generators are {previews * generators:,}, of at most "
            f"{max_previews:,}; {generators} generators can have {max_previews // generators}"
        )


def image_kind(body: bytes) -> Literal["image/png", "image/jpeg", "image/webp"] | None:
    """The media type of an image by its first bytes; None if it is not PNG, JPEG or WebP."""
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _SIGNATURES.items() if body.startswith(signature)), None)


def audio_kind(body: bytes) -> Literal["audio/wav", "audio/mpeg", "audio/ogg", "audio/flac"] | None:
    """The media type of a sound by its first bytes; None if it is not WAV, MP3, Ogg or FLAC."""
    if body[:4] == b"RIFF" and body[8:12] == b"WAVE":
        return "audio/wav"
    if body[:3] == b"ID3" or body[:2] in (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"):
        return "audio/mpeg"
    return "audio/ogg" if body[:4] == b"OggS" else "audio/flac" if body[:4] == b"fLaC" else None


def request_of(
    previews: Sequence[Any], start: int | None, prompts: Sequence[str], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, Any]:
    """The `PreviewRequest` for the samples of a batch, one preview each, None for a sample without one.

    start, prompts: of the pick. arrays: the batch, by which samples are compared. Of more than `MAX_SENT` those are
    sent whose indices have the smallest digests, the same for every generator. Raises FixError for what is no
    preview, or is an image that cannot be encoded.
    """
    indices = [index for index, preview in enumerate(previews) if preview is not None]
    chosen = sorted(indices, key=lambda index: _digest((start or 0) + index))[:MAX_SENT]
    entries: list[dict[str, Any]] = []
    features = compared(arrays, sorted(chosen))
    for index, numbers in zip(sorted(chosen), features, strict=True):
        preview = encoded(previews[index])
        if isinstance(preview, str):
            given = {"text": preview}
        else:
            given = {"audio" if audio_kind(preview) else "image": base64.b64encode(preview).decode()}
        prompt = {"prompt": prompts[index][:500]} if index < len(prompts) else {}
        entries.append({"place": index, **given, **prompt, **({"features": numbers} if numbers else {})})
    return {"start": start, "previews": entries}


def compared(arrays: Mapping[str, NDArray[Any]], indices: Sequence[int]) -> list[list[float]]:
    """The features that the samples at these indices of a batch are compared by: the rows of its widest array, prompts
    excepted, wider ones than `FEATURES` as a projection that keeps distances to some 9 %. [] for a row that is
    not finite.

    The projection is by random signs (Achlioptas, "Database-friendly random projections", 2003), the same for all.
    """
    import numpy as np

    from optimist_client.tensors import BESIDE

    samples = [array for name, array in sorted(arrays.items()) if name not in (*BESIDE, "prompts") and array.size]
    if not samples or not indices:
        return [[] for _ in indices]
    rows = max(samples, key=lambda array: array.size)[list(indices)].astype(np.float64).reshape(len(indices), -1)
    rows[~(np.abs(rows) <= LARGEST_FEATURE).all(1)] = np.nan
    if rows.shape[1] > FEATURES:
        rows = rows @ _signs(rows.shape[1]) / np.sqrt(FEATURES)
    # Seven digits, as the service keeps them.
    return [[float(f"{number:.7g}") for number in row] if np.isfinite(row).all() else [] for row in rows]


@lru_cache(maxsize=4)
def _signs(width: int) -> NDArray[Any]:
    """(width, 64) of −1 and 1, the bits of a generator whose stream numpy keeps the same in all versions."""
    import numpy as np

    words = np.random.PCG64(0).random_raw(width).astype("<u8")
    return 2.0 * np.unpackbits(words.view(np.uint8)).reshape(width, FEATURES) - 1.0


def previews_of(
    max_previews: int, previews: Callable[[Any], Any] | None, embed: object
) -> Callable[[Any], Sequence[Any] | None] | None:
    """The function from what a generator of `run` returned to its previews; None where the experiment keeps none.

    Without `previews` samples are shown as they are, unless they are not embedded, but features themselves.
    """
    if max_previews == 0 or (previews is None and embed is None):
        return None
    function = previews or recognised

    def shown(made: Any) -> Sequence[Any] | None:
        return function(made["samples"] if is_mapping(made) and "samples" in made else made)

    return shown


def answers_of(records: Iterable[Any]) -> list[str | None]:
    """Previews of samples by their records: of each its "answer", or the record itself, if that is a text."""
    texts = (record.get("answer") if is_mapping(record) else record for record in records)
    return [text if isinstance(text, str) else None for text in texts]


def recognised(samples: Any) -> Sequence[Any] | None:
    """The samples as previews, if each is an image or a text by its type: a PIL image, uint8 pixels, the bytes of an
    image file, or a str. None if they are not."""
    if isinstance(samples, str | bytes) or not hasattr(samples, "__len__") or not hasattr(samples, "__getitem__"):
        return None
    if isinstance(samples, dict) or not len(samples):
        return None
    listed = list(samples)
    return listed if all(_is_shown(sample) for sample in listed) else None


def encoded(preview: Any) -> bytes | str:
    """A preview as it is sent: text, or the bytes of an image or a sound.

    preview: a text (the first 64 KiB of it), the bytes or the path of an image file, or of a WAV, MP3, Ogg or FLAC file
    of at most 64 KiB, a PIL image, or an array or tensor (height, width), (height, width, channels) or (channels,
    height, width) of uint8, or of floats from 0 to 1. Images that are larger than 64 KiB, or have to be encoded, become
    thumbnails of at most 256 pixels a side, which needs Pillow. Raises FixError for anything else, for images of more
    than `images.PIXELS`, and without Pillow where it is needed.
    """
    origin = f"{preview}: " if isinstance(preview, Path) else ""
    if isinstance(preview, str):
        return preview.encode(errors="replace")[:LARGEST].decode(errors="ignore") or " "
    if isinstance(preview, Path):
        with preview.open("rb") as file:
            preview = file.read(images.LARGEST + 1)  # one byte more than an image has
    if _is_body(preview):
        body = bytes(preview)
        if audio_kind(body) is not None and len(body) > LARGEST:
            raise FixError(f"previews: {origin}expected a sound of at most {LARGEST} bytes, got {len(body)}")
        if (image_kind(body) or audio_kind(body)) is not None and len(body) <= LARGEST:
            return body
        _pillow()
        try:
            with images.opened(body) as image:
                return _thumbnail(image)
        except ValueError as error:
            raise FixError(f"previews: {origin}{error}") from None
    if hasattr(preview, "thumbnail") and hasattr(preview, "convert"):  # a PIL image
        return _thumbnail(preview)
    return _thumbnail(_pillow().fromarray(_pixels(preview)))


def _is_shown(sample: Any) -> bool:
    if isinstance(sample, bytes):
        return (image_kind(sample) or audio_kind(sample)) is not None
    is_pixels = f"{getattr(sample, 'dtype', '')}".endswith("uint8") and getattr(sample, "ndim", 0) in (2, 3)
    return isinstance(sample, str) or is_pixels or (hasattr(sample, "thumbnail") and hasattr(sample, "convert"))


def _digest(number: int) -> bytes:
    return hashlib.sha256(f"{number}".encode()).digest()


def _pillow() -> Any:
    try:
        return images.pillow()
    except ImportError:
        raise FixError(
            "previews: Pillow encodes images (pip install pillow); without it give the bytes of PNG, JPEG or WebP files"
        ) from None


def _pixels(preview: Any) -> Any:
    """An array of uint8, (height, width) or (height, width, 3 or 4)."""
    import numpy as np

    from optimist_client.tensors import as_array

    array = as_array("previews", preview)
    if array.ndim == 3 and array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (3, 4)) or array.size == 0:
        raise FixError(f"previews: expected (height, width) with 1, 3 or 4 channels, got an array {array.shape}")
    if array.dtype.kind == "f":
        array = np.rint(255.0 * np.clip(np.nan_to_num(array), 0.0, 1.0))
    return np.ascontiguousarray(np.clip(array, 0, 255).astype(np.uint8))


def _thumbnail(image: Any, side: int = 256) -> bytes:
    """A PIL image of at most `side` pixels a side: PNG where it is small, otherwise JPEG, on white."""
    has_alpha = "A" in image.getbands() or "transparency" in image.info
    image = image.convert("RGBA" if has_alpha else "L" if image.mode in ("1", "L", "I", "I;16", "F") else "RGB")
    image.thumbnail((side, side))
    if image.width * image.height <= 96 * 96:  # larger ones take PNG many times as long as JPEG
        return _saved(image, "PNG")
    if has_alpha:
        white = _pillow().new("RGBA", image.size, "white")
        white.alpha_composite(image)
        image = white.convert("RGB")
    return next(body for quality in (88, 70, 40, 10) if len(body := _saved(image, "JPEG", quality=quality)) <= LARGEST)


def _saved(image: Any, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()
