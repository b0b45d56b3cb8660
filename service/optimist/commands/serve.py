"""`optimist serve` runs the service, `optimist scorer` a scorer process of its own."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from optimist.commands.options import takes
from optimist.commands.shared import RedisUrl, extras, format_errors, settings_of
from optimist.metrics.devices import find_device
from optimist.settings import Settings
from optimist_client.errors import FixError


@takes(
    Settings,
    *("host", "port", "data_dir", "workers", "scoring", "device", "require_keys", "insecure"),
    *("tls_certificate", "tls_key", "log_format", "log_requests", "webhook", "webhook_format"),
)
def serve(redis_url: RedisUrl = None, settings: dict[str, Any] | None = None) -> None:
    """Run the service. An option that is not given is read from its variable: OPTIMIST_HOST for --host.

    Example: optimist serve --data-dir ./optimist-data
    """
    service = settings_of(redis_url=redis_url, **(settings or {}))
    with extras("server,scoring"):
        from optimist.insight.shared import API, SERVICE, sharing
        from optimist.server.children import begun_scorer

        if service.scoring and find_spec("torch") is None:  # do not import torch: only the scorer needs it
            raise ModuleNotFoundError(name="torch")
    shared = sharing(f"{API}1" if service.workers == 1 else SERVICE)
    with shared, begun_scorer() if service.scoring else nullcontext() as scorer:
        with extras("server,scoring"):
            from optimist.server.service import serve as run
        with format_errors(FixError):
            run(service, scorer)


METRICS_HOST = "127.0.0.1"


@takes(Settings, "device", "log_format")
def scorer(
    redis_url: RedisUrl = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve /metrics for Prometheus on this port.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address to serve /metrics on. Anyone who can reach it may read them.")
    ] = METRICS_HOST,
    settings: dict[str, Any] | None = None,
) -> None:
    """Run a scorer process until it is stopped.

    It scores for API replicas that were started with --no-scoring. Any number of scorers share the work. --redis-url
    must name the Redis that the replicas use.

    Example: optimist scorer --redis-url redis://10.0.0.5:6379
    """
    service = settings_of(redis_url=redis_url, **(settings or {}))
    if service.redis_url is None:
        raise typer.BadParameter("expected the Redis of the API replicas: --redis-url URL, or OPTIMIST_REDIS_URL")
    with extras("scoring"):
        from prometheus_client import start_http_server

        from optimist.process import configure_log
        from optimist.scoring.scorer import score_for_ever
    configure_log(service.log_format)
    with format_errors(OSError, FixError):
        torch_device = find_device(service.device)
        if metrics_port is not None:
            start_http_server(metrics_port, metrics_host)
        score_for_ever(service.redis_url, torch_device, service.warm_bytes)
