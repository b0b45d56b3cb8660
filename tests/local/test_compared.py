"""`optimist.compare` with an embedder that costs nothing: sources, order, cache, resumption, errors."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optimist
from optimist.datasets.samples import source_of
from optimist.local.compare import order_of
from optimist.local.embedding import CachedEmbedder, EmbeddingCache
from optimist_client import FixError
from optimist_client.embedders import Function, Sentences

pytest.importorskip("PIL")
NOISE = {"clean": 0.0, "noisy": 0.5}
Images = dict[str, list[bytes]]


def encoded(image: np.ndarray) -> bytes:
    from PIL import Image

    with io.BytesIO() as stream:
        Image.fromarray((255 * image.clip(0, 1)).astype(np.uint8)).save(stream, "png")
        return stream.getvalue()


@pytest.fixture(scope="module")
def images() -> Images:
    """PNGs of 4 × 4 pixels: real ones, and those of two generators that redraw other ones."""
    rng = np.random.default_rng(0)
    drawn = rng.random((160, 4, 4))
    made = {name: drawn[:80] + noise * rng.standard_normal((80, 4, 4)) for name, noise in NOISE.items()}
    return {name: [encoded(one) for one in batch] for name, batch in {**made, "real": drawn[80:]}.items()}


@pytest.fixture
def folders(images: Images, tmp_path: Path) -> Path:
    for name, batch in images.items():
        (tmp_path / name / "part").mkdir(parents=True)
        for number, raw in enumerate(batch):
            (tmp_path / name / "part" / f"{number:03}.png").write_bytes(raw)
    return tmp_path


class Pixels(Function):
    """An embedder that counts what it embeds."""

    def __init__(self) -> None:
        self.seen = 0
        super().__init__("pixels", 16, self._pixels)

    def _pixels(self, batch: list[np.ndarray]) -> np.ndarray:
        self.seen += len(batch)
        return np.stack([image[..., 0].reshape(16) / 255 for image in batch])


def compare(place: Path, **given: Any) -> optimist.Compared:
    names = given.pop("names", [place / name for name in NOISE])
    how = {"embed": Pixels(), "reference": place / "real", "cache": place / "cache", "progress": False, **given}
    return optimist.compare(names, **how)


@pytest.mark.long
def test_folders_zips_and_parquet_files_of_the_same_images_give_the_same_answer(folders: Path, images: Images):
    import pyarrow as pa
    from pyarrow import parquet

    found = compare(folders, watch="kid,rke")
    assert (found.best, found.decision.decided, found.common) == ("clean", True, 80)
    assert found.used < 160
    assert found.never_embedded == 160 - found.used
    assert (found.real, found.made, found.cached) == (80, 80 + found.used, 0)
    assert found.effort.startswith(f"{found.used} of 160 images were embedded, {160 - found.used} never")
    assert all(row.score is not None for row in found.report.watched["rke"].standings)
    for name in NOISE:
        with zipfile.ZipFile(folders / f"{name}.zip", "w") as packed:
            for file in sorted((folders / name).rglob("*.png")):
                packed.write(file, f"{name}/{file.relative_to(folders / name)}")
        rows = [{"bytes": raw, "path": f"{number}.png"} for number, raw in enumerate(images[name])]
        parquet.write_table(pa.table({"image": rows, "label": [0] * 80}), folders / f"{name}.parquet")
    zipped = compare(folders, names=[folders / f"{name}.zip" for name in NOISE], watch=["kid", "rke"])
    assert zipped.report == found.report
    assert zipped.made == 0
    rows = compare(folders, names=[folders / f"{name}.parquet" for name in NOISE])
    assert (rows.best, rows.decision.decided) == ("clean", True)
    memory = compare(folders, names={name: images[name] for name in NOISE}, reference=images["real"])
    assert (memory.best, memory.decision.decided) == ("clean", True)


@pytest.mark.long
def test_it_goes_on_where_it_was_left(folders: Path):
    whole = compare(folders, cache=folders / "other", tolerance=0.0)
    first = compare(folders, budget=20)
    assert (first.used, first.report.state) == (20, "out of budget")
    embedder = Pixels()
    second = compare(folders, embed=embedder)
    assert (second.resumed, second.report) == (20, whole.report)
    assert embedder.seen == whole.used - 20
    again = compare(folders, embed=embedder, resume=False)  # as after a crash that left no saved evaluation
    assert (again.resumed, again.made, again.report) == (0, 0, whole.report)
    [file] = (folders / "cache" / "compare").iterdir()
    file.write_bytes(b"damaged")
    assert compare(folders, embed=embedder).report == whole.report
    (folders / "noisy" / "part" / "000.png").write_bytes((folders / "clean" / "part" / "000.png").read_bytes())
    assert compare(folders, embed=embedder).resumed == 0  # other files: another question


@pytest.mark.long
def test_where_nothing_is_decided_all_samples_are_used_and_it_says_which_to_add(folders: Path):
    same = {"one": folders / "clean", "two": folders / "clean"}
    found = compare(folders, names=same, tolerance=0.0)
    assert (found.used, found.never_embedded, found.report.state) == (160, 0, "out of budget")
    assert found.best in same
    other = next(name for name in same if name != found.best)
    alike = f"Warning: {found.best!r} and {other!r} are identical so far (on 80 common samples): stop?"
    assert alike in f"{found}".splitlines()
    assert found.report.answer.startswith("Not decided with all images used: ")
    assert found.report.why.endswith("All images are used. Next: add some to one, two.")
    assert "more samples" not in str(found.report)
    whole = compare(folders, stop=False)
    assert (whole.used, whole.best) == (160, "clean")
    scores = {row.generator: row.score for row in whole.report.standings}
    pixels = Pixels()
    rows = {name: pixels([*map(array, sorted((folders / name / "part").iterdir()))]) for name in [*NOISE, "real"]}
    for name in NOISE:
        assert scores[name] == pytest.approx(optimist.score(rows[name], "fid", reference=rows["real"]).score, rel=1e-6)
    limited = compare(folders, budget=30, resume=False).report
    assert (limited.used_up, "within the budget of 30 samples" in limited.answer) == (None, True)
    for file in sorted((folders / "noisy" / "part").iterdir())[21:]:
        file.unlink()
    used_up = compare(folders, tolerance=0.0, delta=1e-12).report.used_up
    assert used_up.generators == ["noisy"]


def test_few_samples_are_warned_about_before_anything_is_embedded(folders: Path):
    class Never(Pixels):
        def _pixels(self, batch: list[np.ndarray]) -> np.ndarray:
            raise AssertionError("embedded")

    for file in sorted((folders / "noisy" / "part").iterdir())[12:]:
        file.unlink()
    with pytest.warns(UserWarning, match="noisy has") as warned, pytest.raises(AssertionError, match="embedded"):
        compare(folders, embed=Never())
    assert [f"{one.message}" for one in warned] == [
        "noisy has 12 images: nothing is decided before each generator has 20",
        "noisy has few images (12 for 16 features): intervals will be wide",
    ]


def array(path: Path) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


class _Lengths(Sentences):
    name = "lengths"

    def __init__(self) -> None:
        pass

    def embed(self, batch: Any) -> np.ndarray:
        return np.array([[len(text), len(text) % 2] for text in batch], np.float32)


@pytest.mark.long
def test_the_page_shows_the_best_and_the_worst_samples(folders: Path):
    found = compare(folders, stop=False, examples=3)
    groups = found.examples["clean"]
    assert list(groups) == ["best", "typical", "worst"]
    best, typical, worst = ([one.influence for one in groups[place]] for place in groups)
    assert worst == sorted(worst)
    assert best == sorted(best, reverse=True)
    assert best[2] > max(map(abs, typical))
    assert max(map(abs, typical)) < -worst[2]
    # What it says is what happens: without the worst sample the score is better, without the best one it is worse.
    pixels = Pixels()
    rows = {file.stem: pixels([array(file)])[0] for file in sorted((folders / "clean" / "part").iterdir())}
    real = pixels([array(file) for file in sorted((folders / "real" / "part").iterdir())])

    def without(name: str) -> float:
        left = np.stack([row for other, row in rows.items() if f"part/{other}" != name])
        return optimist.score(left, "fid", reference=real).value

    left = sorted((f"part/{name}" for name in rows), key=without)
    assert {one.name for one in groups["worst"]} <= set(left[:6])
    assert {one.name for one in groups["best"]} <= set(left[-6:])
    found.save_page(folders / "answer.html")
    page = (folders / "answer.html").read_text()
    assert page.count("data:image/png;base64,") == 2 * 3 * 3
    assert found.report.answer.replace("<", "&lt;") in page
    assert compare(folders).examples == {}


def test_rows_with_texts_and_with_paths_of_images(folders: Path, tmp_path: Path):
    """JSON lines and cells are read by their fields: the answer is that of the plain texts, and of the images."""
    letters = np.random.default_rng(0)
    texts = {name: ["x" * n for n in letters.integers(1, most, 60)] for name, most in {"short": 4, "long": 9}.items()}
    how: dict[str, Any] = {"embed": _Lengths(), "reference": np.random.default_rng(1).random((90, 2)) + 1.0}
    answers = []
    for suffix in (".txt", ".jsonl", ".csv"):
        for name, lines in texts.items():
            file = folders / f"{name}{suffix}"
            if suffix == ".txt":
                file.write_text("\n".join(lines))
            elif suffix == ".jsonl":
                rows = ({"id": place, "prompt": "x?", "answer": line, "cost": 2} for place, line in enumerate(lines))
                file.write_text("\n".join(map(json.dumps, rows)))
            else:
                file.write_text("n,answer\n" + "".join(f"{place},{line}\n" for place, line in enumerate(lines)))
        answers.append(compare(folders, names=[folders / f"{name}{suffix}" for name in texts], **how))
    assert {(found.best, found.decision.decided, found.kind) for found in answers} == {("short", True, "texts")}
    plain, lines, cells = (found.report for found in answers)
    assert cells == plain
    assert [row.score for row in lines.standings] == [row.score for row in plain.standings]
    assert (plain.cost, lines.cost) == (None, 2.0 * lines.samples)
    for name in NOISE:
        paths = [f"{name}/part/{number:03}.png" for number in range(80)]
        (folders / f"{name}.csv").write_text("path\n" + "\n".join(paths))
    listed = compare(folders, names=[folders / f"{name}.csv" for name in NOISE])
    assert (listed.best, listed.common) == ("clean", 80)
    (folders / "clean" / "part" / "003.png").unlink()
    with pytest.raises(FixError, match=r"clean\.csv: .*003\.png: no such file; 1 of 80 are missing"):
        compare(folders, names=[folders / f"{name}.csv" for name in NOISE])
    (folders / "short.txt").write_text("x\n\nx\n")
    with pytest.raises(FixError, match=r"short\.txt: line 2 is empty"):
        compare(folders, names=[folders / f"{name}.txt" for name in texts], **how)
    (folders / "short.md").write_text("x")
    with pytest.raises(FixError, match=r"short\.md: expected texts in a .*\.csv or \.parquet file, found '\.md'"):
        compare(folders, names=[folders / "short.md", folders / "long.txt"], **how)


def test_what_is_wrong_is_named(folders: Path):
    """What a command line can ask for, too: tests/commands/test_mistakes.py."""
    for asked, said in (
        ({"metric": "kid", "reference": None}, "metric 'kid' needs real samples"),
        ({"watch": "mean"}, "metric 'mean' reads values"),
        ({"metric": "is"}, "the Inception score needs class probabilities"),
        ({"embed": "nothing"}, "embed: expected one of inception"),
    ):
        with pytest.raises(ValueError, match=said):
            compare(folders, **asked)
    (folders / "clean" / "part" / "007.png").write_bytes(b"\x89PNG damaged")
    with pytest.raises(FixError, match=r"007\.png: expected an image that can be read"):
        compare(folders, stop=False)


def test_samples_of_one_name_stand_in_the_same_place():
    order = order_of({"a": ["1", "2", "3", "x"], "b": ["3", "1", "y", "2"]}, 0)
    assert order.common == 3
    assert order.names["a"][:3] == order.names["b"][:3]
    assert order.names["a"][3:] == ["x"]
    assert order_of({"a": list("123456789")}, 1).names["a"] != order_of({"a": list("123456789")}, 2).names["a"]


def test_the_oldest_embeddings_are_dropped(tmp_path: Path):
    rows = {bytes([number]) * 32: np.full(10, number, np.float32) for number in range(10)}
    with EmbeddingCache(tmp_path / "c.sqlite", limit=200) as cache:
        for digest, row in rows.items():
            cache.write("e", {digest: row})
            cache.read("e", [bytes([0]) * 32], 10)  # used all the time
        left = cache.read("e", [*rows], 10)
        assert cache.read("other", [*rows], 10) == {}
    assert {digest[0] for digest in left} == {0, 7, 8, 9}
    np.testing.assert_array_equal(left[bytes([8]) * 32], rows[bytes([8]) * 32])


def test_a_damaged_cache_is_made_anew(tmp_path: Path):
    file = tmp_path / "c.sqlite"
    file.write_bytes(b"no database at all, but long enough to have been one" * 100)
    for expected in ({}, {b"d": [1.0]}):
        with EmbeddingCache(file) as cache:
            assert {digest: row.tolist() for digest, row in cache.read("e", [b"d"], 1).items()} == expected
            cache.write("e", {b"d": np.ones(1, np.float32)})


@pytest.mark.long
def test_cached_rows_of_a_wrong_length_are_made_anew(folders: Path):
    embedder = Pixels()
    whole = compare(folders, embed=embedder)
    made = embedder.seen
    with sqlite3.connect(folders / "cache" / "embeddings.sqlite") as base:
        rows = base.execute("SELECT rowid, row FROM embeddings").fetchall()
        damaged = [rows[0][1][:-1], rows[1][1][:-4], rows[2][1] + bytes(4), b"\xff" * 64]
        for (number, _), row in zip(rows, damaged, strict=False):
            base.execute("UPDATE embeddings SET row = ? WHERE rowid = ?", (row, number))
    again = compare(folders, embed=embedder, resume=False)
    assert (again.made, embedder.seen - made) == (4, 4)
    assert again.report == whole.report
    assert compare(folders, embed=embedder, resume=False).made == 0


@pytest.mark.long
def test_large_samples_are_embedded_a_few_at_a_time(tmp_path: Path):
    batches: list[int] = []

    def means(batch: list[np.ndarray]) -> np.ndarray:
        batches.append(len(batch))
        return np.array([[image.mean(), image.std()] for image in batch])

    large = [np.full((4096, 8192), number, np.uint8) for number in range(3)]
    source = source_of("a", large * 4, "images")
    rows = CachedEmbedder(means).arrays(source, source.names)["features"]
    assert rows[:, 0].tolist() == [0.0, 1.0, 2.0] * 4
    assert max(batches) == 5


@pytest.mark.parametrize(
    "wrong", [{"policy": "nothing"}, {"delta": 2.0}, {"tolerance": -1.0}, {"metric": "is", "watch": "nothing"}]
)
def test_wrong_settings_are_refused_before_anything_is_embedded(wrong: dict[str, object]):
    def embed(images: object):
        raise AssertionError("embedded")

    images = [np.zeros((8, 8), np.uint8)] * 3
    with pytest.raises(ValueError, match=r"nothing|delta|tolerance"):
        optimist.compare({"a": images, "b": images}, embed=embed, reference=images, progress=False, **wrong)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"metric": "rke:kernel.sigma=-1"}, "sigma must be positive and finite, not -1.0"),
        ({"metric": "vendi", "kernel": {"sigma": -1}}, "sigma must be positive and finite, not -1"),
        ({"metric": "vendi", "order": -1}, "order: expected at least 1e-06, got -1"),
        ({"watch": "vendi:order=-1"}, "order: expected at least 1e-06, got -1"),
        ({"watch": "vendi:truncation=0"}, "truncation: expected a whole number, at least 1, got 0"),
        ({"metric": "kid:degree=-1"}, "metric 'kid' takes reference; it does not take degree"),
        ({"metric": "mean"}, "metric 'mean' reads values, which is no embedding of samples"),
        ({"bound": "x"}, "metric 'fid' has the bounds influence, theorem, authors, naive; got 'x'"),
    ],
)
def test_settings_of_metrics_are_checked_before_anything_is_embedded(folders: Path, how: dict[str, Any], said: str):
    embedder = Pixels()
    with pytest.raises(FixError, match=re.escape(said)):
        compare(folders, embed=embedder, **how)
    assert embedder.seen == 0
