"""`optimist scorer`: a scorer process."""

from __future__ import annotations

from typing import Annotated

import typer

from optimist.commands.shared import Device, LogFormat, extras, said_plainly, settings_of
from optimist.numerics.devices import DeviceError, find_device

METRICS_HOST = "127.0.0.1"


def scorer(
    redis_url: Annotated[str, typer.Option(help="The Redis that the API replicas use.")],
    device: Device = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve /metrics for Prometheus on this port.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address to serve /metrics on. Anyone who can reach it may read them.")
    ] = METRICS_HOST,
    log_format: Annotated[LogFormat, typer.Option(help="Log format.")] = "text",
) -> None:
    """Run a scorer process until it is stopped.

    It scores for API replicas that were started with --no-scoring. Any number of scorers share the work.
    """
    settings = settings_of(device=device)
    with extras("scoring"):
        from prometheus_client import start_http_server

        from optimist.insight.logs import configure
        from optimist.scoring.alone import score_for_ever
    configure(log_format)
    with said_plainly(OSError, DeviceError):
        found = find_device(settings.device)
        if metrics_port is not None:
            start_http_server(metrics_port, metrics_host)
        score_for_ever(redis_url, found, settings.warm_bytes)
