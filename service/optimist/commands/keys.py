"""`optimist keys`: create, list and revoke access keys in the Redis of a service, whether it is running or not.

It requires access to Redis or to the data directory. Over HTTP a key can only make shares, which are viewer keys for
one experiment that end with it, so that a stolen key cannot be used to create others that outlive it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from optimist.commands.shared import AsJson, DataDir, RedisUrl, extras, format_errors, in_utc, print_as, redis_of
from optimist.commands.usage import Command, Group
from optimist_client.errors import FixError
from optimist_client.layout import Table
from optimist_client.models import Role

if TYPE_CHECKING:
    from optimist.api.middleware.keys import KeyRecord

ActionResult = TypeVar("ActionResult")

app = typer.Typer(cls=Group, no_args_is_help=True, add_completion=False)


@app.callback()
def keys() -> None:
    """Create, list and revoke access keys.

    Example: optimist keys create --role worker
    """


@app.command(cls=Command)
def create(
    role: Annotated[
        Role, typer.Option(help="rater: score audits; viewer: look; worker: also make samples; admin: everything.")
    ],
    namespace: Annotated[
        str, typer.Option(help="The namespace whose experiments and references the key gives access to.")
    ] = "default",
    experiment: Annotated[list[str] | None, typer.Option(help="Restrict the key to this experiment.")] = None,
    expires: Annotated[
        str | None,
        typer.Option(help="How long it lasts, such as 12h, 7d or 4w; by default until it is revoked."),
    ] = None,
    note: Annotated[str, typer.Option(help="A note, such as the user or purpose of the key.")] = "",
    given: Annotated[
        bool, typer.Option("--given", help="Register an existing key, read from standard input, instead of a new one.")
    ] = False,
    data_dir: DataDir = None,
    redis_url: RedisUrl = None,
) -> None:
    """Create an access key and print it.

    The key is shown only once because only its hash is stored. It works immediately.

    Example: optimist keys create --role worker --expires 7d --note "training"
    """
    with extras("server"), format_errors(ValueError, OSError):
        from optimist.api.middleware.keys import make_key
        from optimist.store.store import AccessKeys

        lasts = None if expires is None else seconds_of(expires)
        existing = typer.get_text_stream("stdin").read().strip() if given else None
        id_, key, record = make_key(role, namespace, tuple(experiment or ()), note, lasts=lasts, existing=existing)

        async def put(keys: AccessKeys) -> None:
            await keys.put(id_, record.model_dump_json())

        _with_keys(put, data_dir, redis_url)
    typer.echo(key)


@app.command("list", cls=Command)
def list_(data_dir: DataDir = None, redis_url: RedisUrl = None, as_json: AsJson = False) -> None:
    """List all access keys.

    Shows the id, role, namespace, experiments, times of creation and end, and note of each key.

    Example: optimist keys list --data-dir ./optimist-data
    """
    with extras("server"), format_errors(ValueError, OSError):
        from optimist.api.middleware.keys import KeyRecord
        from optimist.store.store import AccessKeys

        async def read(keys: AccessKeys) -> dict[str, str]:
            return await keys.all()

        texts = _with_keys(read, data_dir, redis_url)
        records = {id_: KeyRecord.model_validate_json(text) for id_, text in texts.items()}
    records = dict(sorted(records.items(), key=lambda item: item[1].created))
    document = [{"id": id_, **record.model_dump(exclude={"digest"})} for id_, record in records.items()]
    print_as(document, [overview(records)], as_json=as_json)


def overview(records: Mapping[str, KeyRecord]) -> Table:
    """The table of keys by their ids."""
    rows: list[tuple[str, ...]] = []
    for id_, record in records.items():
        ends = "never" if record.expires is None else in_utc(record.expires)
        names = ", ".join(record.experiments) or "all"
        rows.append((id_, record.role, record.namespace, names, in_utc(record.created), ends, record.note))
    head = ("id", "role", "namespace", "experiments", "created (UTC)", "expires (UTC)", "note")
    first_to_go = ("created (UTC)", "namespace", "experiments", "expires (UTC)")
    return Table(head, rows, left=head, first_to_go=first_to_go, sentences="note")


@app.command(cls=Command)
def revoke(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, or the key itself.")],
    data_dir: DataDir = None,
    redis_url: RedisUrl = None,
) -> None:
    """Revoke an access key.

    It stops working within five seconds.

    Example: optimist keys revoke 3f9c0a2b
    """
    with extras("server"), format_errors(ValueError, OSError):
        from optimist.api.middleware.keys import split_key
        from optimist.store.store import AccessKeys

        parts = split_key(id_)
        wanted = id_ if parts is None else parts.id

        async def remove(keys: AccessKeys) -> bool:
            return await keys.remove(wanted)

        if not _with_keys(remove, data_dir, redis_url):
            # Do not print the input: it may be most of a secret key.
            raise FixError("no key has this id: see `optimist keys list`")
    typer.echo(f"{wanted} is revoked")


def seconds_of(duration: str) -> float:
    """The seconds of "12h", "7d" or "4w". Raises FixError for another text."""
    parts = re.fullmatch(r"([1-9]\d{0,4})([hdw])", duration)
    if parts is None:
        raise FixError(f"--expires: expected a number of hours, days or weeks, such as 12h, 7d or 4w; got {duration!r}")
    return int(parts[1]) * {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}[parts[2]]


def _with_keys(
    action: Callable[..., Awaitable[ActionResult]], data_dir: Path | None, redis_url: str | None
) -> ActionResult:
    from optimist.store import open_store

    async def run(url: str) -> ActionResult:
        async with open_store(url) as store:
            return await action(store.access_keys)

    with redis_of(data_dir, redis_url) as url:
        return asyncio.run(run(url))
