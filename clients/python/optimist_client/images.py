"""Opens images of files, of the formats and sizes that samples have. Pillow is imported when one is opened."""

from __future__ import annotations

import io
from typing import Any

from optimist_client.errors import FixError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""The formats that are read, by Pillow's names. Pillow knows forty more, some of which start other programs."""
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

    Raises FixError, saying what was expected, for another format than `FORMATS` by what the bytes are, for more
    than `PIXELS` pixels, and for what cannot be read; ModuleNotFoundError without Pillow.
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


def decoded(body: bytes, mode: str) -> Any:
    """The image in the bytes of a file, decoded to a mode of Pillow such as "RGB". Raises as `opened` does."""
    with opened(body) as image:
        try:
            return image.convert(mode)
        except Exception as error:  # damaged images raise errors of many kinds
            raise FixError(f"expected an image that can be read: {error}") from None


def check_pixels(width: int, height: int) -> None:
    """Raise FixError if an image of this size has more than `PIXELS` pixels."""
    if width * height > PIXELS:
        raise FixError(f"expected an image of at most {PIXELS:,} pixels, found {width:,} × {height:,}")
