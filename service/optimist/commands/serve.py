"""`optimist serve` runs the service, `optimist scorer` a scorer process of its own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from optimist.commands.shared import Device, LogFormat, RedisUrl, extras, format_errors, settings_of
from optimist.metrics.devices import find_device
from optimist_client.errors import FixError


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory for the data of the embedded Redis.")] = None,
    redis_url: RedisUrl = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of API processes that share the port; 1 by default.")
    ] = None,
    scoring: Annotated[
        bool | None, typer.Option(help="Start a scorer as well, or leave scoring to `optimist scorer`.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Device on which the scorer computes: cpu, cuda or cuda:<i>.")
    ] = None,
    require_keys: Annotated[
        bool | None, typer.Option("--require-keys", help="Require access keys even on a loopback address.")
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="Require no access keys on any address: anyone may do everything."),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file with the certificate, to serve HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file with the certificate's private key.")] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="Log format; text by default.")] = None,
    log_requests: Annotated[bool | None, typer.Option("--log-requests", help="Log every request.")] = None,
) -> None:
    """Run the service. An option that is not given is read from its variable: OPTIMIST_HOST for --host."""
    settings = settings_of(
        host=host,
        port=port,
        data_dir=data_dir,
        redis_url=redis_url,
        workers=workers,
        scoring=scoring,
        device=device,
        require_keys=require_keys,
        insecure=insecure,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        log_format=log_format,
        log_requests=log_requests,
    )
    with extras("server,scoring"):
        from optimist.insight.shared import API, SERVICE, sharing

    with sharing(f"{API}1" if settings.workers == 1 else SERVICE):
        with extras("server,scoring"):
            from optimist.server.service import serve as run

            if settings.scoring and find_spec("torch") is None:  # do not import torch: only the scorer needs it
                raise ModuleNotFoundError(name="torch")
        with format_errors(FixError):
            run(settings)


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

        from optimist.process import configure_log
        from optimist.scoring.scorer import score_for_ever
    configure_log(settings.log_format)
    with format_errors(OSError, FixError):
        found = find_device(settings.device)
        if metrics_port is not None:
            start_http_server(metrics_port, metrics_host)
        score_for_ever(settings.redis_url, found, settings.warm_bytes)
