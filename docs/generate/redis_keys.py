"""reference/redis.md from the module that names everything in Redis."""

from __future__ import annotations

import re
from pathlib import Path

from notes import cell

from optimist.store import keys

INTRODUCTION = """# Keys in Redis

This page lists everything that a service keeps in Redis, from `store/keys.py`. All keys of an experiment carry one hash
tag, `optimist:{id}:…`, so that one script may touch them together, in a cluster, too. The id is the experiment's name
in the namespace `default`, and `<namespace>/<name>` in any other; the same holds for references. Here *g* is the
ordinal of a generator, and a *unit* is a generator as one metric scores it.

"""
FURTHER = {
    "optimist:reference:<name>": "hash: description, digest, and body in pieces of at most 1 MiB; it never changes",
    "{optimist:reference:<name>}:upload:<id>": "hash: a reference on its way, which expires after an hour; one rename "
    "makes it the reference",
}


def page() -> str:
    """The whole page: the keys of a service, then those of an experiment. Raises ValueError for one without a note."""
    source = Path(keys.__file__).read_text()
    service = dict(re.findall(r'^\w+ = "(optimist:[\w-]+)"\n"""(.+?)"""$', source, re.M)) | FURTHER
    parts = dict(re.findall(r'^    "(\w+)",  # (.+)$', source, re.M))
    if missing := set(keys.EXPERIMENT_PARTS) - set(parts):
        raise ValueError(f"{keys.__file__} has no note for {sorted(missing)}")
    experiment = {f"…:{name}": note for name, note in parts.items()}
    return f"{INTRODUCTION}## Of the service\n\n{_table(service)}\n\n## Of an experiment\n\n{_table(experiment)}"


def _table(rows: dict[str, str]) -> str:
    lines = [f"| `{key}` | {cell(note)} |" for key, note in rows.items()]
    return "\n".join(["| key | holds |", "| --- | --- |", *lines])
