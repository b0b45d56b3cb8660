"""The service: Redis (embedded or given), the scorer in a child, and the API here or in children, put together."""

from __future__ import annotations

import asyncio
import logging
import shlex
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version

from optimist.api.messages.outgoing import check_receiver
from optimist.api.middleware.limits import SharedCounters
from optimist.insight.shared import directory
from optimist.records import CannotStart
from optimist.server.api import address, bound, ending_in_order, prepare, run_api
from optimist.server.supervised import scorer_process, workers
from optimist.settings import Settings
from optimist.store import open_store, start_embedded
from optimist.store.connection import format_url, wait_for_server
from optimist.store.embedded import warn_of
from optimist.store.redis_program import Program

_log = logging.getLogger(__name__)


@contextmanager
def redis_of(settings: Settings) -> Generator[tuple[str, Program | None]]:
    """The URL of the Redis server to use: the one given, else an embedded one that lives as long as this context, and
    its program.

    Raises `DirectoryInUse` when another service holds the data directory, `CannotStart` for a server that is not fit.
    """
    if settings.redis_url is not None:
        asyncio.run(wait_for_server(settings.redis_url))
        yield settings.redis_url, None
        return
    with start_embedded(settings.data_dir) as embedded:
        asyncio.run(wait_for_server(embedded.url))
        yield embedded.url, embedded.program


def serve(settings: Settings, scorer: subprocess.Popen[bytes] | None = None) -> None:
    """Run the API, and a scorer beside it unless told otherwise, until SIGINT or SIGTERM.

    With several workers the API runs in child processes, which end first. The process shares its metrics with those
    that it starts (`insight.shared.sharing`). scorer: the scorer's process, where it runs already. Raises CannotStart
    for an address that is in use, and where the scorer's device is not here; FixError where messages may not go to the
    webhook's address.
    """
    prepare(settings)
    if settings.webhook is not None:
        check_receiver(settings.webhook, settings.webhook_networks)
    path = directory() / "counters"
    counters = SharedCounters(settings.workers, path=path)
    with ending_in_order() as told, ExitStack() as stack:
        sockets = stack.enter_context(bound(settings.host, settings.port))
        host, port = sockets[0].getsockname()[:2]
        url, program = stack.enter_context(redis_of(settings))
        if not settings.is_open:
            asyncio.run(_need_keys(url, settings))
        if settings.scoring:
            stack.enter_context(scorer_process(url, settings, counters, scorer))

        def announce() -> None:
            where = address(host, port, settings.tls_certificate is not None)
            processes = "" if settings.workers == 1 else f", {settings.workers} API processes"
            _log.info("Optimist %s on %s (Redis: %s%s)", version("optimist"), where, _where(settings), processes)
            if program is not None:
                warn_of(program)

        if settings.workers == 1:
            run_api(settings, url, counters, sockets, announce, told)
        else:
            with workers(url, settings, path, sockets):
                announce()
                # Python runs the handler once this thread runs. `told.wait()` would keep it from running for ever if
                # the kernel gave the signal to another thread, as it may after SIGCONT.
                while not told.is_set():
                    time.sleep(0.2)


def _where(settings: Settings) -> str:
    """The place of the data, for the log."""
    if settings.redis_url is not None:
        return format_url(settings.redis_url)
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
    if format_url(settings.redis_url) == settings.redis_url:
        return f"--redis-url {shlex.quote(settings.redis_url)}"
    # Logs must not show passwords.
    return f"--redis-url {shlex.quote(format_url(settings.redis_url))}  (add the user and options of your URL)"
