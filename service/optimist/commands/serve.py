"""`optimist serve`: run the service."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from optimist import __version__
from optimist.commands.shared import LogFormat, console, extras, said_plainly, settings_of
from optimist.numerics.devices import DeviceError


def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory for the data of the embedded Redis.")] = None,
    redis_url: Annotated[
        str | None, typer.Option(help="URL of a running Redis to use instead of the embedded one.")
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
    """Run the service. Options that are not given are read from OPTIMIST_* variables."""
    settings = settings_of(
        host=host,
        port=port,
        data_directory=data_dir,
        redis_url=redis_url,
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
        from optimist.server.service import serve as run
        from optimist.store.connect import shown

        if settings.scoring and find_spec("torch") is None:  # do not import torch: only the scorer needs it
            raise ModuleNotFoundError(name="torch")
    scheme = "http" if settings.tls_certificate is None else "https"
    url = settings.redis_url
    where = f"embedded, data in {settings.data_directory}" if url is None else shown(url)
    console.print(
        f"Optimist {__version__} on {scheme}://{settings.host}:{settings.port} (Redis: {where})", soft_wrap=True
    )
    with said_plainly(DeviceError):
        run(settings)
