"""`optimist backup`: every experiment as a file that `optimist import` reads.

It reads Redis, as `optimist keys` does, because a key sees one namespace only: over HTTP nobody can save all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimist.commands.shared import DataDir, RedisUrl, extras, format_errors, note, redis_of, service
from optimist_client.errors import FixError, NotFoundError, StopError
from optimist_client.replacing import replaced

if TYPE_CHECKING:
    from optimist.store import Store


def backup(
    folder: Annotated[Path, typer.Argument(help="The folder of the files; it is made if it is not there.")],
    tag: Annotated[str | None, typer.Option(help="Only experiments with this tag.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Only experiments of this namespace.")] = None,
    data_dir: DataDir = None,
    redis_url: RedisUrl = None,
    url: Annotated[
        str | None,
        typer.Option(help="URL of a service, to save over HTTP only what the key in OPTIMIST_API_KEY sees."),
    ] = None,
) -> None:
    """Export the experiments of all namespaces, each to a file NAMESPACE/NAME.zip of FOLDER for `optimist import`.

    They are read from Redis, while the service is running or not, and continue meanwhile. With --url they are those of
    one namespace, NAME.zip of FOLDER. A file that is there is replaced once the new one is complete. The exit status is
    1 if nothing, or not everything, was saved.

    Example: optimist backup ./backups --data-dir ./optimist-data
    """
    saving, tagged = _Saving(folder), "" if tag is None else f" with the tag {tag!r}"
    if url is not None:
        if (namespace, data_dir, redis_url) != (None, None, None):
            raise typer.BadParameter("expected --url alone: its key has a namespace, and Redis is not read")
        _over_http(url, tag, saving, tagged)
        return
    with extras("server"), format_errors(ValueError, OSError):
        with redis_of(data_dir, redis_url, reads=True) as redis:
            asyncio.run(_from_redis(redis, namespace, tag, saving))
        where = "Redis has" if namespace is None else f"the namespace {namespace!r} has"
        saving.check(f"{where} no experiment{tagged}")


class _Saving:
    """The files saved into a folder, and the failures."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved = self._failed = 0

    @contextmanager
    def noting_failures(self, name: str) -> Generator[None]:
        """Print why an experiment cannot be saved, so that the others are."""
        from optimist.records import CorruptData, NotFound

        try:
            yield
        except (NotFound, NotFoundError):
            note(f"{name}: deleted meanwhile")
        except (CorruptData, ValueError, StopError) as error:
            self._failed += 1
            note(f"{name}: not saved: {error}")

    @contextmanager
    def written(self, name: str) -> Generator[Path]:
        """A temporary file, which becomes the file of an experiment once it was written without an error."""
        file = self._folder / f"{name}.zip"
        file.parent.mkdir(parents=True, exist_ok=True)
        with replaced(file) as part:
            yield part
        self._saved += 1
        typer.echo(f"{name}: {file.stat().st_size:,} bytes in {file}")

    def check(self, nothing: str) -> None:
        """Raise FixError, which says `nothing` if that was saved, unless all were saved."""
        if self._failed:
            raise FixError(f"{self._failed} of {self._failed + self._saved} experiments were not saved")
        if not self._saved:
            raise FixError(f"nothing was saved: {nothing}")


def _over_http(url: str, tag: str | None, saving: _Saving, tagged: str) -> None:
    advice = "a key sees one namespace; without --url, --data-dir or --redis-url saves all"
    with service(url) as optimist:
        for name in [listed.name for listed in optimist.list_experiments(tag=tag)]:
            with saving.noting_failures(name), saving.written(name) as part:
                optimist.experiment(name).export(part)
        saving.check(f"this key sees no experiment{tagged}: {advice}")
        note(f"saved what this key sees: {advice}")


async def _from_redis(url: str, namespace: str | None, tag: str | None, saving: _Saving) -> None:
    from optimist.store import open_store
    from optimist.store.keys import name_of, namespace_of
    from optimist.store.store import COPIES

    async with open_store(url) as store:
        for full in sorted(indexed.name for indexed in await store.newest()):
            owner, name = namespace_of(full), name_of(full)
            if not owner.endswith(COPIES) and namespace in (None, owner):
                with saving.noting_failures(full):
                    await _export(store.in_namespace(owner), name, tag, saving.written(f"{owner}/{name}"))


async def _export(store: Store, name: str, tag: str | None, target: AbstractContextManager[Path]) -> None:
    """Export an experiment, unless it has another tag. Raises NotFound, and as the export does."""
    from optimist.archive.exporting import Exporter
    from optimist.archive.file import ArchiveWriter
    from optimist.experiments.outlines import labelled
    from optimist.records import NotFound
    from optimist_client.models import Experiment

    text = await store.config(name)
    if text is None:
        raise NotFound(f"no experiment is called {name!r}")
    experiment = Experiment.model_validate_json(text)
    (controls,) = await store.labels([name])
    if tag is not None and tag not in labelled(experiment, controls).config.tags:
        return
    with target as part, part.open("w+b") as file, ArchiveWriter(file) as writer:
        await Exporter(store, experiment, writer).run()
