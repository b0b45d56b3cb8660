"""Samples read one by one: folders and zips of images, parquet files, text files by line, sequences.

Every sample has a name within its source. Samples of several sources with the same name belong together: files of the
same path, lines or rows of the same number.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any, Literal

from optimist_client import images
from optimist_client.errors import FixError
from optimist_client.installed import install_hint
from optimist_client.rows import NO_FIELDS, SUFFIXES, Fields, Rows

Medium = Literal["images", "texts"]
IMAGES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".npy")
"""The endings of files that are images. `.npy` holds an array (h, w) or (h, w, 3)."""
TEXTS = (".txt",)
_TEXT, _PATH = ("text", "answer", "output", "completion", "response"), ("image", "path", "file")
"""The usual names of the fields of texts, and of paths of images, in rows."""
_LONGEST = 2**20
"""The most characters of a line of text."""
_MEMBER, _TOGETHER = 2**24, 2**28
"""Bytes of one member of a zip, and of all samples of a file, that are not compared with their packed size."""


class SampleSource(ABC):
    """Samples of one generator, or real samples. `names` are the samples' names, distinct."""

    def __init__(self, name: str, origin: str) -> None:
        self.name = name
        self.origin = origin
        """Name in messages: the path."""
        self.prompts: Mapping[str, str] = {}
        """Prompts of the samples, by the samples' names; empty if unknown."""
        self.clusters: Mapping[str, str] = {}
        """The clusters of samples by their names; empty where samples are independent."""
        self.cost: float | None = None
        """Mean cost of a sample, if known."""
        self.left_out: tuple[str, ...] = ()
        """Files that are no samples, by their endings."""
        self.notes: Counter[str] = Counter()
        """Number of samples by the conversion that `images.as_seen` applied."""

    def _read(self, origin: str, suffix: str, raw: bytes) -> Any:
        """An image; its conversions are counted in `notes`."""
        done: list[str] = []
        image = _image(origin, suffix, raw, done)
        self.notes.update(done)
        return image

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of the samples. Raises FixError if there are none."""

    @abstractmethod
    def raw(self, name: str) -> bytes:
        """The content of a sample, by which its embedding is cached. Raises FixError."""

    @abstractmethod
    def sample(self, name: str, raw: bytes) -> Any:
        """The sample as embedders take it. Raises FixError."""

    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of the source's identity: names, sizes and times of change."""


class Files(SampleSource):
    """Files of images by name."""

    def __init__(self, name: str, origin: Path, files: Mapping[str, Path]) -> None:
        super().__init__(name, f"{origin}")
        self._files = files

    @classmethod
    def from_folder(cls, name: str, folder: Path) -> Files:
        """The images of a folder, with its subfolders, also of links to others. A name is a path in the folder without
        its ending.
        """
        files = [path for path in _files_in(folder) if not _hidden(path.relative_to(folder).parts)]
        images_ = [path for path in files if path.suffix.lower() in IMAGES and path.is_file()]
        source = cls(name, folder, _distinct(f"{folder}", {p.relative_to(folder).as_posix(): p for p in images_}))
        source.left_out = _endings(path for path in files if path not in {*images_})
        return source

    @property
    def names(self) -> Sequence[str]:
        return list(self._files)

    def raw(self, name: str) -> bytes:
        try:
            with self._files[name].open("rb") as file:
                return _limited(f"{self._files[name]}", file)
        except OSError as error:
            raise FixError(f"{self._files[name]}: {error}") from None

    def sample(self, name: str, raw: bytes) -> Any:
        return self._read(f"{self._files[name]}", self._files[name].suffix, raw)

    def digest(self) -> str:
        """SHA-256 of paths, sizes and times of change."""
        stats = ((name, path.stat()) for name, path in self._files.items())
        return _digest((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


class Zip(SampleSource):
    """A zip of images. A name is a path in it without its ending."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(name, f"{file}")
        try:
            self._zip = zipfile.ZipFile(file)
            self._packed = file.stat().st_size
        except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
            raise FixError(f"{file}: expected a zip of images: {error}") from None

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        # Some programs of Windows pack paths with backslashes.
        files = {info.filename.replace("\\", "/"): info for info in self._zip.infolist() if not info.is_dir()}
        files = {name: info for name, info in files.items() if not _hidden(PurePosixPath(name).parts)}
        images_ = {name: info for name, info in files.items() if PurePosixPath(name).suffix.lower() in IMAGES}
        self.left_out = _endings(PurePosixPath(name) for name in files if name not in images_)
        if len(images_) > (max_images := 2**22):
            raise FixError(f"{self.origin}: expected at most {max_images:,} images, found {len(images_):,}")
        # Members may share their packed bytes, so that each is of a plausible size and all together are not.
        _check_ratio(self.origin, sum(info.file_size for info in images_.values()), self._packed, _TOGETHER)
        tops = {PurePosixPath(name).parts[0] for name in images_}
        # A folder that was packed as a whole has all its files below one name, which says nothing.
        top = f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in images_) else ""
        return _distinct(self.origin, {name.removeprefix(top): images_[name] for name in sorted(images_)})

    @property
    def names(self) -> Sequence[str]:
        return list(self._members)

    def raw(self, name: str) -> bytes:
        member = self._members[name]
        origin = f"{self.origin}: {member.filename}"
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # zipfile unpacks others at once
            raise FixError(f"{origin}: expected it stored or deflated, found method {member.compress_type}")
        _check_ratio(origin, member.file_size, member.compress_size, _MEMBER)
        try:
            with self._zip.open(member) as file:
                return _limited(origin, file)
        except FixError:
            raise
        except Exception as error:  # damaged members raise errors of zipfile and zlib
            raise FixError(f"{origin}: {error}") from None

    def sample(self, name: str, raw: bytes) -> Any:
        member = self._members[name].filename
        return self._read(f"{self.origin}: {member}", PurePosixPath(member).suffix, raw)

    def digest(self) -> str:
        """SHA-256 of paths, sizes and checksums."""
        return _digest((name, info.file_size, info.CRC) for name, info in self._members.items())


class Items(SampleSource):
    """Samples in memory: texts, encoded images, or images as embedders take them. A name is an id or a place."""

    def __init__(
        self, name: str, origin: str, items: Sequence[Any], what: str = "sample", names: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, origin)
        if not len(items):
            raise FixError(f"{origin}: expected at least one {what}, found none")
        self._items, self._what = items, what
        self.stamp = 0
        """Time of change of the file, where samples have no separate contents; else 0."""
        self._indices = {name: index for index, name in enumerate(names or map(str, range(len(items))))}

    @property
    def names(self) -> Sequence[str]:
        return [*self._indices]

    def raw(self, name: str) -> bytes:
        """The text in UTF-8, the encoded image, or b"" for other samples, whose embeddings are not cached."""
        item = self._items[self._indices[name]]
        return item.encode() if isinstance(item, str) else item if isinstance(item, bytes) else b""

    def sample(self, name: str, raw: bytes) -> Any:
        index = self._indices[name]
        item = self._items[index]
        return self._read(f"{self.origin}: {self._what} {index + 1}", "", item) if isinstance(item, bytes) else item

    def digest(self) -> str:
        """SHA-256 of names and contents; "" if samples have no contents, so that runs cannot be told apart."""
        if self.stamp:
            return _digest([(self.origin, self.stamp, len(self._items))])
        contents = {name: self.raw(name) for name in self.names}
        if not all(contents.values()) and not all(isinstance(item, str) for item in self._items):
            return ""
        return _digest((name, hashlib.sha256(content).hexdigest()) for name, content in contents.items())


class Tar(SampleSource):
    """Shards of webdataset: .tar files whose members of one key are parts of a sample. A name is a key.

    Of images a text (.txt) of the same key is the prompt.
    """

    def __init__(self, name: str, origin: Path, files: Sequence[Path], kind: Medium) -> None:
        super().__init__(name, f"{origin}")
        endings = IMAGES if kind == "images" else TEXTS
        self._members: dict[str, tuple[Path, tarfile.TarInfo]] = {}
        beside: dict[str, tuple[Path, tarfile.TarInfo]] = {}
        others: list[PurePosixPath] = []
        for file in files:
            try:
                with tarfile.open(file, "r:") as packed:
                    members = [member for member in packed if member.isreg() and not member.issparse()]
            except (OSError, tarfile.TarError) as error:
                raise FixError(f"{file}: expected a .tar file that is not packed further: {error}") from None
            for member in members:
                path = PurePosixPath(member.name)
                if _hidden(path.parts):
                    continue
                key, ending = f"{path.parent / path.name.partition('.')[0]}", path.suffix.lower()
                if ending not in endings:
                    beside |= {key: (file, member)} if ending in TEXTS else {}
                    others += [] if ending in TEXTS else [path]
                elif key in self._members:
                    raise FixError(f"{file}: the key {key!r} is there twice")
                else:
                    self._members[key] = file, member
        if not self._members:
            raise FixError(f"{origin}: expected samples ({', '.join(endings)}), found none")
        self.left_out = _endings(others)
        if kind == "images":
            self.prompts = {key: self._content(*beside[key]).decode(errors="replace") for key in beside}
        self._kind = kind

    @property
    def names(self) -> Sequence[str]:
        return list(self._members)

    def raw(self, name: str) -> bytes:
        return self._content(*self._members[name])

    def _content(self, file: Path, member: tarfile.TarInfo) -> bytes:
        """The bytes of a member, which are in the file as they are."""
        try:
            with file.open("rb") as stream:
                stream.seek(member.offset_data)
                return _limited(f"{file}: {member.name}", io.BytesIO(stream.read(min(member.size, images.LARGEST + 1))))
        except OSError as error:
            raise FixError(f"{file}: {member.name}: {error}") from None

    def sample(self, name: str, raw: bytes) -> Any:
        member = self._members[name][1].name
        if self._kind == "texts":
            return raw.decode(errors="replace").strip()
        return self._read(f"{self.origin}: {member}", PurePosixPath(member).suffix, raw)

    def digest(self) -> str:
        """SHA-256 of keys, sizes and times of change."""
        return _digest((name, member.size, member.mtime) for name, (_, member) in self._members.items())


def _of_arrays(name: str, file: Path) -> SampleSource:
    """The images of an .npz file, as guided-diffusion writes them: one array (n, h, w, 3) of bytes, perhaps labels."""
    import numpy as np

    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as loaded:
            arrays = {key: loaded[key] for key in loaded}
    except Exception as error:  # errors of zipfile, zlib or numpy
        raise FixError(f"{file}: expected a readable .npz file: {error}") from None
    images_ = [array for array in arrays.values() if array.ndim == 4 and array.dtype == np.uint8]
    if len(images_) != 1:
        shapes = ", ".join(f"{key} {array.dtype} {array.shape}" for key, array in arrays.items())
        raise FixError(f"{file}: expected one array (n, h, w, 3) of uint8, found {shapes}")
    source = Items(name, f"{file}", list(images_[0]))
    source.stamp = file.stat().st_mtime_ns
    return source


def source_of(name: str, samples: Any, kind: Medium, fields: Fields = NO_FIELDS) -> SampleSource:
    """The source of a path, a sequence of samples, or the rows of a table. Raises FixError for anything else.

    fields: of the rows of .jsonl and .csv files.
    """
    if isinstance(samples, Rows):
        return _of_rows(name, samples, kind)
    if not isinstance(samples, str | Path):
        if isinstance(samples, Mapping) or not hasattr(samples, "__len__"):
            raise FixError(f"{name!r}: expected a path or a sequence of samples, got a {type(samples).__name__}")
        return Items(name, name, samples)
    path = Path(samples)
    suffix = path.suffix.lower()
    if not path.exists():
        raise FixError(f"{path}: no such file or folder")
    if suffix in (".npy", ".safetensors"):
        raise FixError(f"{path}: expected samples, found features: `optimist contrast` compares these")
    if suffix in SUFFIXES:
        return _of_rows(name, Rows.from_file(path, fields), kind)
    fields.check_unused(path)
    shards = _shards_in(path) if path.is_dir() else [path]
    if shards and shards[0].suffix.lower() == ".parquet":
        return Items(name, f"{path}", [value for shard in shards for value in _column(shard, kind)], "row")
    if shards and shards[0].suffix.lower() == ".tar":
        return Tar(name, path, shards, kind)
    if path.is_dir():
        return Files.from_folder(name, path) if kind == "images" else Items(name, f"{path}", _lines_in(path), "line")
    if kind == "images" and suffix == ".npz":
        return _of_arrays(name, path)
    if kind == "texts" and suffix in TEXTS:
        return Items(name, f"{path}", _lines(path), "line")
    if kind == "images" and suffix == ".zip":
        return Zip(name, path)
    if kind == "texts":
        expected = "texts in a .txt, .tar, .jsonl, .csv or .parquet file"
        raise FixError(f"{path}: expected {expected}, found {suffix or 'no ending'!r}")
    expected = "a folder of images, a .zip, .tar, .parquet or .npz file, or paths of images in a .jsonl or .csv file"
    raise FixError(f"{path}: expected {expected}, found {suffix or 'no ending'!r}; files of texts need --embed text")


def _of_rows(name: str, rows: Rows, kind: Medium) -> SampleSource:
    """The source of rows that have texts, or paths of images beside the file."""
    usual, what = (_TEXT, "text") if kind == "texts" else (_PATH, "path of an image")
    values = rows.texts(rows.sample_field(usual, what), what)
    for line, value in enumerate(values, 1):
        if len(value) > _LONGEST:
            raise FixError(f"{rows.file}: row {line}: expected at most {_LONGEST:,} characters")
    names = rows.ids() or [f"{number}" for number in range(len(rows))]
    if kind == "texts":
        source: SampleSource = Items(name, f"{rows.file}", values, "row", names)
    else:
        files = {id: rows.file.parent / path for id, path in zip(names, values, strict=True)}
        if missing := [path for path in files.values() if not path.is_file()]:
            raise FixError(f"{rows.file}: {missing[0]}: no such file; {len(missing):,} of {len(files):,} are missing")
        source = Files(name, rows.file, files)
    source.prompts = dict(zip(names, rows.prompts() or (), strict=False))
    source.clusters = dict(zip(names, rows.clusters() or (), strict=False))
    if rows.cost is not None:
        source.cost = float(rows.numbers(rows.cost, "cost").mean())
    return source


def generators_of(path: Path, fields: Fields) -> dict[str, Path | Rows]:
    """The generators of a path, as `source_of` takes them: named in a table, else by the folder or the file without its
    ending. Raises FixError for a table that cannot be read."""
    if path.suffix.lower() in SUFFIXES and path.is_file():
        parts = Rows.from_file(path, fields).by_generator()
        if len(parts) > 1:
            return {**parts}
    resolved = path.resolve()
    return {resolved.name if resolved.is_dir() else resolved.stem: path}


def _distinct(origin: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name without ending; with it where two would be called the same. Raises FixError for none."""
    if not values:
        raise FixError(f"{origin}: expected images ({', '.join(IMAGES)}), found none")
    counts = Counter(_bare(name) for name in values)
    return {_bare(name) if counts[_bare(name)] == 1 else name: value for name, value in values.items()}


def _bare(name: str) -> str:
    return f"{PurePosixPath(name).with_suffix('')}"


def _files_in(folder: Path) -> list[Path]:
    """All files of a folder and its subfolders, sorted, and broken links; links are followed once."""
    files: list[Path] = []
    been: set[str] = set()
    for directory, folders, names in os.walk(folder, followlinks=True):
        here = os.path.realpath(directory)
        if here in been:
            folders.clear()
            continue
        been.add(here)
        files += [Path(directory, file) for file in names]
    return sorted(files)


def _shards_in(folder: Path) -> list[Path]:
    """The .parquet or .tar files of a folder without images, sorted."""
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if any(path.is_dir() or path.suffix.lower() in (*IMAGES, *TEXTS) for path in files):
        return []
    shards = [[path for path in files if path.suffix.lower() == ending] for ending in (".parquet", ".tar")]
    return shards[0] or shards[1]


def _endings(files: Iterable[PurePath]) -> tuple[str, ...]:
    """Number of files of each ending, and of broken links, as phrases."""
    counts = Counter(
        "links that lead nowhere"
        if isinstance(file, Path) and not file.exists()
        else file.suffix.lower() or "no ending"
        for file in files
    )
    return tuple(f"{count:,} {ending}" for ending, count in sorted(counts.items()))


def _hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in parts)


def _digest(parts: Any) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(f"{part}\n".encode())
    return sha.hexdigest()


def _limited(origin: str, file: IO[bytes]) -> bytes:
    """The content of a file. Raises FixError for more than an image has, without reading all of it."""
    content = file.read(images.LARGEST + 1)
    if len(content) > images.LARGEST:
        raise FixError(f"{origin}: expected an image of at most {images.LARGEST:,} bytes, found more")
    return content


def _check_ratio(origin: str, unpacked: int, packed: int, min_bytes: int, ratio: int = 100) -> None:
    """Raise FixError if that unpacks to more than `min_bytes` bytes, and to more than samples do: encoded images hardly
    shrink, texts to a tenth."""
    if unpacked > min_bytes and unpacked > ratio * packed:
        expected = f"expected samples that unpack to at most {ratio} times their size"
        raise FixError(f"{origin}: {expected}, found {unpacked:,} bytes in {packed:,}")


def _image(origin: str, suffix: str, raw: bytes, notes: list[str]) -> Any:
    """An image as an array (h, w) or (h, w, 3), by its bytes. notes: receives the conversions."""
    import numpy as np

    try:
        return _array(raw) if suffix.lower() == ".npy" else np.asarray(images.decoded(raw, notes))
    except ModuleNotFoundError:
        raise FixError(f"{origin}: reading images needs Pillow: {install_hint('embed-offline')}") from None
    except ValueError as error:
        raise FixError(f"{origin}: {error}") from None


def _array(raw: bytes) -> Any:
    """The array of an `.npy` file. Raises FixError for anything but an image, before memory is taken for it."""
    import numpy as np
    from numpy.lib import format as npy

    try:
        head = io.BytesIO(raw)
        reads = npy.read_array_header_1_0 if npy.read_magic(head) == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = reads(head)
    except Exception as error:  # the header is parsed as a Python literal
        raise FixError(f"expected an image that can be read as .npy: {error}") from None
    if len(shape) not in (2, 3) or min(shape) < 1 or max(shape[2:], default=3) > 4 or dtype.kind not in "fiu":
        raise FixError(f"expected an array (h, w) or (h, w, 3) of numbers, found {dtype} of shape {shape}")
    images.check_pixels(shape[1], shape[0])
    try:
        return np.load(io.BytesIO(raw), allow_pickle=False)
    except Exception as error:
        raise FixError(f"expected an image that can be read as .npy: {error}") from None


def _lines(file: Path) -> list[str]:
    """The lines of a file without surrounding white space; empty lines at the end are left out. Raises FixError."""
    lines: list[str] = []
    try:
        with file.open(encoding="utf-8") as stream:
            while line := stream.readline(_LONGEST + 1):
                if len(line) > _LONGEST:
                    expected = f"expected one sample on each line, of at most {_LONGEST:,} characters"
                    raise FixError(f"{file}: line {len(lines) + 1} is longer: {expected}")
                lines.append(line.strip())
    except UnicodeDecodeError as error:
        raise FixError(f"{file}: expected text in UTF-8: {error}") from None
    while lines and not lines[-1]:
        lines.pop()
    if "" in lines:
        raise FixError(f"{file}: line {lines.index('') + 1} is empty: expected one sample on each line")
    return lines


def _lines_in(folder: Path) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in TEXTS)
    if not files:
        raise FixError(f"{folder}: expected files of texts ({', '.join(TEXTS)}), found none")
    return [line for file in files for line in _lines(file)]


def _column(file: Path, kind: Medium) -> list[Any]:
    """The column of a parquet file that holds texts, or encoded images (as bytes, or in a struct with `bytes`)."""
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise FixError(f"{file}: reading Parquet files needs pyarrow: {install_hint('parquet')}") from None

    def holds(type_: Any) -> bool:
        if kind == "texts":
            return pa.types.is_string(type_) or pa.types.is_large_string(type_)
        inner = [type_.field(index) for index in range(type_.num_fields)] if pa.types.is_struct(type_) else []
        binary = (pa.types.is_binary, pa.types.is_large_binary)
        return any(check(type_) for check in binary) or any(field.name == "bytes" for field in inner)

    values: list[Any] = []
    try:
        with ParquetFile(file) as table:
            name = _sample_column(file, kind, table.schema_arrow, holds)
            packed, unpacked = file.stat().st_size, 0
            for batch in table.iter_batches(16, columns=[name], use_threads=False):
                unpacked += batch.nbytes
                _check_ratio(f"{file}: column {name!r}", unpacked, packed, _TOGETHER)
                cells = batch.column(0).to_pylist()
                values += [cell["bytes"] if isinstance(cell, dict) else cell for cell in cells]
    except (OSError, pa.ArrowException) as error:
        raise FixError(f"{file}: expected a readable .parquet file: {error}") from None
    longest, unit = (_LONGEST, "characters") if kind == "texts" else (images.LARGEST, "bytes")
    for row, value in enumerate(values):
        if not value:
            raise FixError(f"{file}: column {name!r}: row {row + 1} has no value")
        if len(value) > longest:
            raise FixError(f"{file}: column {name!r}: row {row + 1}: expected at most {longest:,} {unit}")
    return values


def _sample_column(file: Path, kind: Medium, schema: Any, holds: Callable[[Any], bool]) -> str:
    """The name of the column that holds the samples. Raises FixError."""
    columns = [field.name for field in schema if holds(field.type)]
    # The column of the usual name has the samples: others may be labels or captions.
    columns = [name for name in columns if name in ("text", "image")] or columns
    if len(columns) != 1:
        listed = ", ".join(f"{field.name} ({field.type})" for field in schema)
        called = "text" if kind == "texts" else "image"
        raise FixError(f"{file}: expected one column of {kind}, or one called {called!r}; found {listed}")
    return columns[0]
