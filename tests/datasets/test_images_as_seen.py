"""Images as a person sees them, and where they are: folders by class that are links, zips, tars, shards, arrays."""

from __future__ import annotations

import io
import shutil
import tarfile
import unicodedata
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist.datasets.names import together
from optimist.datasets.samples import Medium, source_of
from optimist_client import FixError
from optimist_client.images import DEEP, TRANSPARENT, TURNED, as_seen

Image = pytest.importorskip("PIL.Image")
Y, X = np.mgrid[:32, :32]
COLOURS = Image.fromarray(np.stack([X * 8, Y * 8, 255 - X * 8], 2).astype("u1"))


def off(image: Any, other: Any) -> float:
    """The mean difference of two images' numbers."""
    return float(np.abs(np.asarray(image, float) - np.asarray(other.convert("RGB"), float)).mean())


@pytest.mark.parametrize("mode", ["P", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LA", "PA", "1", "L"])
def test_each_mode_is_seen_as_it_is(mode: str):
    grey, palette = COLOURS.convert("L"), COLOURS.quantize(256)
    made, seen = {
        "P": (palette, palette),
        "PA": (COLOURS.convert("P").convert("PA"), COLOURS.convert("P")),
        "1": (COLOURS.convert("1"), COLOURS.convert("1")),
    }.get(mode, (COLOURS.convert(mode), grey if mode in ("LA", "L") else COLOURS))
    assert made.mode == mode
    assert off(as_seen(made), seen) < 3
    assert as_seen(made).mode == "RGB"


def test_deep_images_are_brought_to_eight_bits():
    numbers = (X * 8).astype("f8")
    grey = Image.fromarray(numbers.astype("u1"))
    for deep in ((numbers * 257).astype("u2"), (numbers / 255).astype("f4")):
        for ending in ("png", "tiff"):
            if deep.dtype == np.float32 and ending == "png":
                continue
            stream, notes = io.BytesIO(), list[str]()
            Image.fromarray(deep).save(stream, ending)
            assert off(as_seen(Image.open(stream), notes), grey) < 1
            assert notes == [DEEP]


def test_what_is_done_is_noted():
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    notes: list[str] = []
    assert np.asarray(as_seen(clear, notes)).min() == 255
    stream, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    COLOURS.crop((0, 0, 32, 8)).save(stream, "jpeg", exif=exif)
    assert as_seen(Image.open(stream), notes).size == (8, 32)
    gif = COLOURS.quantize(8)
    gif.info["transparency"] = gif.getpixel((0, 0))
    as_seen(gif, notes)
    assert notes == [TRANSPARENT, TURNED, TRANSPARENT]


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (Image.fromarray(np.full((4, 4), 2.5, "f4")), "floats from 0 to 1 in an image of floats, found 2.5 to 2.5"),
        (Image.fromarray(np.full((4, 4), 70000, "i4")), "8 or 16 bits, found whole numbers of 32 bits"),
        (COLOURS.convert("LAB"), "found the mode LAB: convert it to RGB first"),
    ],
)
def test_other_ranges_are_refused_by_name(image: Any, said: str):
    with pytest.raises(FixError, match=said):
        as_seen(image)


Bytes = Callable[[int], bytes]


def png(seed: int) -> bytes:
    stream = io.BytesIO()
    draw = np.random.default_rng(seed)
    Image.fromarray((128 + 30 * draw.standard_normal((8, 8, 3))).clip(0, 255).astype("u1")).save(stream, "png")
    return stream.getvalue()


def filled(folder: Path, names: Sequence[str], ending: str = ".png", seed: int = 0) -> Path:
    for place, name in enumerate(names):
        file = folder / f"{name}{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(seed + place))
    return folder


NAMES = [f"{place:04}" for place in range(30)]


def test_links_are_followed_once_and_other_endings_are_counted(tmp_path: Path):
    store = filled(tmp_path / "store", [f"cats/{name}" for name in NAMES[:20]] + [f"dogs/{name}" for name in NAMES])
    (tmp_path / "classes").mkdir()
    for name in ("cats", "dogs"):
        (tmp_path / "classes" / name).symlink_to(store / name)
    (tmp_path / "classes" / "dogs-again").symlink_to(tmp_path / "classes")  # a circle
    filled(tmp_path / "classes" / "more", NAMES[:3], ".jfif")
    filled(tmp_path / "classes" / "more", NAMES[:2], ".heic")
    (tmp_path / "classes" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    source = source_of("classes", tmp_path / "classes", "images")
    assert len(source.names) == 53
    assert source.left_out == ("2 .heic", "1 links that lead nowhere")


def packed(file: Path, members: Sequence[tuple[str, bytes]]) -> Path:
    with tarfile.open(file, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_a_tar_of_webdataset(tmp_path: Path, kind: Medium):
    parts = [
        (f"{place:03}.{ending}", png(place) if ending == "png" else f"a {place}".encode())
        for place in range(6)
        for ending in ("png", "txt", "cls")
    ]
    for number, members in enumerate((parts[:9], parts[9:])):
        (tmp_path / "shards").mkdir(exist_ok=True)
        packed(tmp_path / "shards" / f"{number:05}.tar", members)
    whole = packed(tmp_path / "whole.tar", parts)
    for path in (whole, tmp_path / "shards"):
        source = source_of("a", path, kind)
        assert [*source.names] == [f"{place:03}" for place in range(6)]
        sample = source.sample("003", source.raw("003"))
        assert sample == "a 3" if kind == "texts" else sample.shape == (8, 8, 3)
        if kind == "images":
            assert (source.prompts["003"], source.left_out) == ("a 3", ("6 .cls",))
    with tarfile.open(tmp_path / "gz.tar", "w:gz"):
        pass
    with pytest.raises(FixError, match="not packed further"):
        source_of("a", tmp_path / "gz.tar", kind)


def test_arrays_and_shards_of_images(tmp_path: Path):
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "samples.npz", images, np.arange(6))
    source = source_of("a", tmp_path / "samples.npz", "images")
    np.testing.assert_array_equal(source.sample("4", b""), images[4])
    assert source.digest()
    np.savez(tmp_path / "features.npz", images[:, 0, 0])
    with pytest.raises(FixError, match=r"expected one array \(n, h, w, 3\) of uint8, found arr_0 uint8 \(6, 3\)"):
        source_of("a", tmp_path / "features.npz", "images")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "shards").mkdir()
    for part in range(3):
        rows = [{"bytes": png(2 * part + row), "path": "x.png"} for row in range(2)]
        parquet.write_table(pa.table({"image": rows}), tmp_path / "shards" / f"train-{part:05}.parquet")
    source = source_of("a", tmp_path / "shards", "images")
    assert (len(source.names), source.raw("5")) == (6, png(5))


def features(images: list[Any]) -> np.ndarray:
    return np.stack([np.asarray(one, float).reshape(4, 2, 8, 3).mean((1, 2)).ravel() / 255 for one in images])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    filled(tmp_path / "real", NAMES, seed=500)
    filled(tmp_path / "png", NAMES)
    filled(tmp_path / "unpadded", [f"{place}" for place in range(30)])
    for form in ("NFC", "NFD"):
        filled(tmp_path / form, [unicodedata.normalize(form, f"é{name}") for name in NAMES])
    shutil.copytree(tmp_path / "png", tmp_path / "stray")
    (tmp_path / "stray" / "0003.png").rename(tmp_path / "stray" / "of another kind.png")
    with zipfile.ZipFile(tmp_path / "windows.zip", "w") as zipped:  # as Windows PowerShell 5 packs a folder
        for file in sorted((tmp_path / "png").iterdir()):
            zipped.writestr(zipfile.ZipInfo(f"gen\\{file.name}"), file.read_bytes())
    filled(tmp_path / "others", [f"x{name}" for name in NAMES], seed=900)
    return tmp_path


@pytest.mark.parametrize(
    ("sets", "common", "said"),
    [
        (["png", "unpadded"], 30, ""),
        (["png", "windows.zip"], 30, ""),
        (["NFC", "NFD"], 30, ""),
        (["png", "stray"], 29, "29 of 30 samples have names in common of all sets"),
        (["png", "unpadded", "others"], 30, "others: its samples have no names in common with the others"),
        (["png", "others"], 0, "others: its samples have no names in common with the others"),
    ],
)
def test_names_pair_however_they_are_spelt(place: Path, sets: list[str], common: int, said: str):
    how: dict[str, Any] = {"embed": features, "reference": place / "real", "progress": False, "resume": False}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = optimist.compare([place / name for name in sets], stop=False, cache=place / "cache", **how)
    assert found.common == common
    notes = [f"{one.message}" for one in warned if "names in common" in f"{one.message}"]
    assert notes == [] if not said else said in " ".join(notes)
    assert found.used == 30 * len(sets)
    basis = found.report.basis
    assert basis is not None
    assert (basis.paired_by, basis.common) == (("name", common) if common else (None, None))


def test_names_that_would_be_the_same_stay_as_they_are():
    found = together({"a": ["1", "01", "2"], "b": ["1", "2"]})
    assert (found.paired, found.shared) == ({"a", "b"}, {"1", "2"})


def test_what_was_left_out_and_done_is_said(place: Path):
    for name in NAMES[:4]:
        Image.new("RGBA", (8, 8), (9, 9, 9, int(name))).save(place / "png" / f"{name}.png")
    (place / "png" / "notes.md").write_text("x")
    sets = [place / "png", place / "unpadded"]
    found = optimist.compare(
        sets, embed=features, reference=place / "real", progress=False, stop=False, cache=place / "cache"
    )
    assert "left out: 1 .md (png); 4 images of png transparent: laid on white" in f"{found}"
    assert f"{found}".splitlines()[-2].startswith("Rests on 30 rows each, ")
