"""Samples that mean harm, or are not what their names say: an error names them before they take memory."""

from __future__ import annotations

import io
import resource
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimist.datasets.samples import source_of
from optimist_client import FixError
from optimist_client.embedders.pixels import IMAGENET, framed, to_pixels
from optimist_client.previews import encoded

pytest.importorskip("PIL")
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n%%EOF\n"


def png(width: int, height: int, lines: int | None = None) -> bytes:
    """A PNG of one colour, in grey: a thousandth of its pixels in bytes. lines: how many of its lines are there."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(width + 1)) for _ in range(lines or height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def read(source: Any, kind: Any = "images") -> Any:
    """The first sample of a source."""
    found = source_of("a", source, kind)
    name = found.names[0]
    return found.sample(name, found.raw(name))


def sources_of(place: Path, raw: bytes) -> list[Any]:
    """The image in a folder, a zip and a parquet file, and in memory."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (place / "folder").mkdir()
    (place / "folder" / "one.png").write_bytes(raw)
    with zipfile.ZipFile(place / "packed.zip", "w") as packed:
        packed.writestr("one.png", raw)
    parquet.write_table(pa.table({"image": [raw]}), place / "rows.parquet")
    return [place / "folder", place / "packed.zip", place / "rows.parquet", [raw]]


def test_only_images_of_the_formats_that_samples_have_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ghostscript = tmp_path / "bin" / "gs"
    ghostscript.parent.mkdir()
    ghostscript.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\nexit 1\n")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ghostscript.parent}:/usr/bin:/bin")
    for source in sources_of(tmp_path, POSTSCRIPT):
        with pytest.raises(FixError, match=r"(one\.png|row 1|sample 1): expected an image .*\(PNG, JPEG.* are b'%!PS"):
            read(source)
    with pytest.raises(ValueError, match=r"one\.png: expected an image that can be read \(PNG, JPEG"):
        encoded(tmp_path / "folder" / "one.png")
    assert not (tmp_path / "started").exists()
    # The format is that of the bytes: a JPEG that is called .png is read.
    from PIL import Image

    with io.BytesIO() as stream:
        Image.new("L", (3, 2)).save(stream, "jpeg")
        assert read([stream.getvalue()]).shape == (2, 3, 3)


def test_an_image_of_too_many_pixels_takes_no_memory(tmp_path: Path):
    raw = png(5800, 5800)
    assert len(raw) < 50_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for source in sources_of(tmp_path, raw):
        with pytest.raises(FixError, match=r"at most 33,554,432 pixels, found 5,800 × 5,800"):
            read(source)
    with pytest.raises(ValueError, match="at most 33,554,432 pixels"):
        encoded(raw + bytes(2**16))  # small files are sent as they are
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB
    with pytest.raises(FixError, match="at most 33,554,432 pixels"):
        read([png(20_000, 20_000, 1)])  # which Pillow refuses itself
    assert read([png(100, 50)]).shape == (50, 100, 3)


def test_an_image_that_is_a_line_is_not_enlarged():
    pytest.importorskip("torch")
    [line] = to_pixels([np.zeros((1, 100_000), np.uint8)])
    with pytest.raises(ValueError, match="sides of at most 64 : 1"):
        framed(line, 224, IMAGENET)


def test_arrays_that_are_no_images(tmp_path: Path):
    for array in (np.zeros((5, 4, 7)), np.zeros(5), np.zeros((2, 2), "U1")):
        np.save(tmp_path / "one.npy", array)
        with pytest.raises(FixError, match=r"one\.npy: expected an array \(h, w\)"):
            read(tmp_path)
    # A header that announces more than is there.
    with (tmp_path / "one.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)})
    with pytest.raises(FixError, match=r"one\.npy: expected an image of at most"):
        read(tmp_path)


@pytest.mark.long
def test_zips_that_unpack_to_more_than_images(tmp_path: Path):
    file = tmp_path / "a.zip"

    def packed(method: int, *sizes: int) -> None:
        with zipfile.ZipFile(file, "w", method) as archive:
            for number, size in enumerate(sizes):
                archive.writestr(f"{number}.bmp", bytes(size))

    for method, sizes, said in (
        (zipfile.ZIP_DEFLATED, [2**25], r"a\.zip: 0\.bmp: expected samples that unpack to at most 100"),
        (
            zipfile.ZIP_DEFLATED,
            [2**24] * 17,
            r"a\.zip: expected samples that unpack to at most 100 times their size, fo",
        ),
        (zipfile.ZIP_BZIP2, [2**25], r"0\.bmp: expected it stored or deflated"),
    ):
        packed(method, *sizes)
        with pytest.raises(FixError, match=said):
            read(file)
    # One that says less than it unpacks to.
    packed(zipfile.ZIP_DEFLATED, 2**25)
    file.write_bytes(file.read_bytes().replace(struct.pack("<I", 2**25), struct.pack("<I", 1000)))
    with pytest.raises(FixError, match=r"0\.bmp: "):
        read(file)


def test_lines_and_cells_that_are_too_long(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.txt").write_text(f"short\n{'x' * (2**20 + 1)}\nshort\n")
    with pytest.raises(FixError, match=r"a\.txt: line 2 is longer: expected one sample on each line, of at most"):
        read(tmp_path / "a.txt", "texts")
    parquet.write_table(pa.table({"text": ["short", "x" * (2**20 + 1)]}), tmp_path / "a.parquet")
    with pytest.raises(FixError, match=r"column 'text': row 2: expected at most 1,048,576 characters"):
        read(tmp_path / "a.parquet", "texts")
    # A separator of lines within a text does not end the sample.
    (tmp_path / "b.txt").write_text("one\u2028line\ntwo\n")
    assert source_of("a", tmp_path / "b.txt", "texts").names == ["0", "1"]


def test_a_parquet_file_that_unpacks_to_too_much(tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = pa.table({"image": [bytes(2**20)] * 16})
    with parquet.ParquetWriter(tmp_path / "a.parquet", rows.schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(rows)
    assert (tmp_path / "a.parquet").stat().st_size < 2**21
    with pytest.raises(
        FixError, match=r"a\.parquet: column 'image': expected samples that unpack to at most 100 times"
    ):
        read(tmp_path / "a.parquet")
