"""Opens images of files, of the formats and sizes that samples have. Pillow is imported when one is opened."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

from optimist_client.errors import FixError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Supported formats, by Pillow's names. Pillow knows forty more, some of which start other programs."""
PIXELS = 2**25
"""The most pixels of an image: 8192 × 4096. Of one colour they take some 20 KB as a file, and 100 MB decoded."""
LARGEST = 2**28
"""The most bytes of an image's file."""


def pillow() -> Any:
    """Pillow's module `Image`. Raises ModuleNotFoundError."""
    from PIL import Image

    return Image


def opened(body: bytes) -> Any:
    """The PIL image in the bytes of a file, whose pixels are not decoded yet.

    Raises FixError for another format than `FORMATS` by its bytes, for more than `PIXELS` pixels, and for unreadable
    images; ModuleNotFoundError without Pillow.
    """
    module = pillow()
    if len(body) > LARGEST:
        raise FixError(f"expected a file of at most {LARGEST:,} bytes, found {len(body):,}")
    try:
        image = module.open(io.BytesIO(body), formats=FORMATS)
    except (module.DecompressionBombError, module.DecompressionBombWarning) as error:
        raise FixError(f"expected at most {PIXELS:,} pixels: {error}") from None
    except module.UnidentifiedImageError:
        expected = f"expected an image that can be read ({', '.join(FORMATS)})"
        raise FixError(f"{expected}; its first bytes are {bytes(body[:8])!r}") from None
    except Exception as error:  # damaged images raise errors of many kinds
        raise FixError(f"expected an image that can be read: {error}") from None
    check_pixels(image.width, image.height)
    return image


def decoded(body: bytes, notes: list[str] | None = None) -> Any:
    """The image in the bytes of a file, in colours, as of `as_seen`. Raises as `opened` and `as_seen` do."""
    with opened(body) as image:
        try:
            return as_seen(image, notes)
        except FixError:
            raise
        except Exception as error:  # damaged images raise errors of many kinds
            raise FixError(f"expected an image that can be read: {error}") from None


TRANSPARENT = "transparent: laid on white"
TURNED = "turned as their EXIF orientation says"
DEEP = "of 16 bits or floats: brought to 8 bits"
_SEEN = ("1", "L", "RGB", "RGBX", "CMYK", "YCbCr", "HSV", "P")
_WITH_ALPHA = ("RGBA", "RGBa", "LA", "La", "PA")


def as_seen(image: Any, notes: list[str] | None = None) -> Any:
    """A PIL image in the mode RGB as a person sees it: upright, on white where transparent, with 8 bits per channel.

    notes: receives the conversions, of `TRANSPARENT`, `TURNED` and `DEEP`. Raises FixError for other modes.
    """
    done = [] if notes is None else notes
    if image.getexif().get(0x0112, 1) != 1:  # the tag of the orientation
        done.append(TURNED)
        image = import_module("PIL.ImageOps").exif_transpose(image)
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        done.append(DEEP)
        image = _as_bytes(image)
    if image.mode in _WITH_ALPHA or (image.mode != "RGBA" and "transparency" in image.info):
        image = image.convert("RGBA")
        if image.getextrema()[3][0] < 255:
            done.append(TRANSPARENT)
        return pillow().alpha_composite(pillow().new("RGBA", image.size, "white"), image).convert("RGB")
    if image.mode not in _SEEN:
        expected = "in colours, in grey, with a palette or with transparency"
        raise FixError(f"expected an image {expected}, found the mode {image.mode}: convert it to RGB first")
    return image.convert("RGB")


def _as_bytes(image: Any) -> Any:
    """A grey image of 16 bits, or of floats from 0 to 1, with 8 bits. Raises FixError for another range of numbers."""
    low, high = image.getextrema()
    if image.mode == "F":
        if not 0.0 <= low <= high <= 1.0:
            raise FixError(f"expected floats from 0 to 1 in an image of floats, found {low:g} to {high:g}")
        return pillow().fromarray((import_module("numpy").asarray(image) * 255.0 + 0.5).astype("u1"))
    if image.mode == "I" and (image.format != "PNG" or not 0 <= low <= high < 2**16):
        raise FixError(f"expected an image of 8 or 16 bits, found whole numbers of 32 bits from {low} to {high}")
    array = import_module("numpy").asarray(image)
    return pillow().fromarray(((array.astype("u4") + 128) // 257).astype("u1"))


def check_pixels(width: int, height: int) -> None:
    """Raise FixError if an image of this size has more than `PIXELS` pixels."""
    if width * height > PIXELS:
        raise FixError(f"expected an image of at most {PIXELS:,} pixels, found {width:,} × {height:,}")
