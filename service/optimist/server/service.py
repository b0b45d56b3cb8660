"""The service: Redis (embedded or given), the API in this process, and the scorer in a child, put together and run."""

from __future__ import annotations

import asyncio
import gc
import shlex
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pydantic.warnings import UnsupportedFieldAttributeWarning
from threadpoolctl import threadpool_limits
from uvicorn import Config

from optimist.api.app import create_app
from optimist.insight.logs import configure
from optimist.numerics.devices import give_back_from
from optimist.server.connections import patient
from optimist.server.listening import Server, bound, ending_in_order
from optimist.server.scorer_process import scorer_process
from optimist.settings import Settings
from optimist.store import CannotStart, open_store, start_embedded
from optimist.store.connect import shown
from optimist.store.deployment import wait_for_server

LARGE = 2**20
"""Bytes from which a block goes back to the system as soon as it is freed."""


@contextmanager
def redis_of(settings: Settings) -> Iterator[str]:
    """The URL of the Redis server to use: the one given, else an embedded one that lives as long as this context.

    Raises `DirectoryInUse` when another service holds the data directory, `CannotStart` for a server that is not fit.
    """
    if settings.redis_url is not None:
        asyncio.run(wait_for_server(settings.redis_url))
        yield settings.redis_url
        return
    with start_embedded(settings.data_dir) as embedded:
        asyncio.run(wait_for_server(embedded.url))
        yield embedded.url


def serve(settings: Settings) -> None:
    """Run the API, and a scorer beside it unless told otherwise, until SIGINT or SIGTERM.

    Raises CannotStart for an address that is in use, DeviceError where the scorer's device is not here.
    """
    configure(settings.log_format, settings.log_requests)
    # The check of a reference is the only thing here that more would help, and it would take them from everybody else.
    # Not by variables: a scorer that is started here has threads of its own.
    threadpool_limits(1)
    give_back_from(LARGE)  # as what bodies take is counted only until they are freed
    # FastAPI's own (0.165), of its parameters' aliases: nothing that whoever runs the service could mend.
    warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
    # numpy parses the header of an .npz body as a Python literal: a client could fill the log with warnings about it.
    warnings.simplefilter("ignore", SyntaxWarning)
    warnings.filterwarnings("ignore", "Reading `.npy` or `.npz` file required additional header parsing", UserWarning)
    with ending_in_order(), ExitStack() as stack:
        sockets = stack.enter_context(bound(settings.host, settings.port))
        url = stack.enter_context(redis_of(settings))
        if not settings.is_open:
            asyncio.run(_need_keys(url, settings))
        scorer = stack.enter_context(scorer_process(url, settings)) if settings.scoring else None
        app = create_app(settings, url, None if scorer is None else lambda: scorer.at_work)
        # What has been made by now stays: the collector need not go through it again and again.
        gc.freeze()
        config = Config(
            app,
            host=settings.host,
            http=patient(settings.head_timeout, settings.answer_timeout),
            ws="none",
            log_config=None,
            access_log=False,
            limit_concurrency=settings.max_connections,
            timeout_keep_alive=75,  # a round of sampling takes longer than uvicorn's default of 5 s
            timeout_graceful_shutdown=10,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        )
        Server(config, app.version, _where(settings)).run(sockets)


def _where(settings: Settings) -> str:
    """Where the data is, for the log."""
    if settings.redis_url is not None:
        return shown(settings.redis_url)
    return f"embedded, data in {settings.data_dir}"


async def _need_keys(redis_url: str, settings: Settings) -> None:
    """Raise CannotStart if access keys are required and there are none, with the command that creates one."""
    async with open_store(redis_url) as store:
        if not await store.access_keys.all():
            raise CannotStart(
                f"On {settings.host} callers need access keys, and there are none. Create one:\n"
                f"  optimist keys create --role admin {_option(settings)}\n"
                "With --insecure everybody who reaches the service may do everything."
            )


def _option(settings: Settings) -> str:
    """The option that makes a command use the Redis of these settings, as it can be pasted into a shell."""
    if settings.redis_url is None:
        return f"--data-dir {shlex.quote(str(settings.data_dir.resolve()))}"
    if shown(settings.redis_url) == settings.redis_url:
        return f"--redis-url {shlex.quote(settings.redis_url)}"
    # Logs must not show passwords.
    return f"--redis-url {shlex.quote(shown(settings.redis_url))}  (add the user, password and options of your URL)"
