"""`optimist scorer`: a scorer process."""

from __future__ import annotations

from typing import Annotated

import typer

from optimist.commands.shared import Device, LogFormat, RedisUrl, extras, said_plainly, settings_of
from optimist.metrics.devices import find_device
from optimist_client.errors import FixError

METRICS_HOST = "127.0.0.1"


def scorer(
    redis_url: RedisUrl = None,
    device: Device = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve /metrics for Prometheus on this port.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address to serve /metrics on. Anyone who can reach it may read them.")
    ] = METRICS_HOST,
    log_format: Annotated[LogFormat | None, typer.Option(help="Log format; text by default.")] = None,
) -> None:
    """Run a scorer process until it is stopped.

    It scores for API replicas that were started with --no-scoring. Any number of scorers share the work. --redis-url
    must name the Redis that the replicas use.
    """
    settings = settings_of(redis_url=redis_url, device=device, log_format=log_format)
    if settings.redis_url is None:
        raise typer.BadParameter("expected the Redis of the API replicas: --redis-url URL, or OPTIMIST_REDIS_URL")
    with extras("scoring"):
        from prometheus_client import start_http_server

        from optimist.insight.logs import configure
        from optimist.scoring.scorer import score_for_ever
    configure(settings.log_format)
    with said_plainly(OSError, FixError):
        found = find_device(settings.device)
        if metrics_port is not None:
            start_http_server(metrics_port, metrics_host)
        score_for_ever(settings.redis_url, found, settings.warm_bytes)
