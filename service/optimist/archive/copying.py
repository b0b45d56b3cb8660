"""Copies an experiment within the store, with its references, to try something on the copy."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import BinaryIO

from optimist.archive.exporting import Exporter
from optimist.archive.file import Archive, ArchiveWriter
from optimist.archive.importing import import_archive
from optimist.settings import Settings
from optimist.store import Store
from optimist.store.keys import COPIES
from optimist_client.models import Experiment


async def copy_experiment(
    experiment: Experiment,
    store: Store,
    settings: Settings,
    file: BinaryIO,
    hold: Callable[[int], None],
    room_for: Callable[[int], AbstractAsyncContextManager[None]],
) -> str:
    """Copy an experiment into the store of copies of its namespace, and return the name of the copy.

    file: an empty one, to which its archive is written. hold: called with the bytes of memory that this takes.
    room_for: as in `import_archive`. Raises as export and import do.
    """
    with ArchiveWriter(file) as writer:
        await Exporter(store, experiment, writer).run()
    archive = await asyncio.to_thread(Archive, file)
    hold(archive.memory)
    name = uuid.uuid4().hex
    instance = f"{experiment.instance}{COPIES}{name}"
    return await import_archive(store.copies, settings, archive, name, instance, room_for)
