"""The dashboard: one static page at `/`, its modules and styles, and plotly.min.js from the plotly wheel."""

from __future__ import annotations

import gzip
import importlib.util
import mimetypes
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Header, HTTPException
from fastapi.responses import FileResponse, Response

PLOTLY = "plotly.min.js"
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        # plotly.js sets styles of its own; nothing that users name comes near them.
        "style-src 'self' 'unsafe-inline'",
        # A viewer may ask for any image; the page fetches none of other hosts by itself, but for those in the settings.
        "img-src 'self' data: http: https:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
"""Content-Security-Policy of the page: even a name that got past it would find no way to run."""
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
PAGE_HEADERS = {**HEADERS, "content-security-policy": POLICY, "cache-control": "no-cache"}
ASSET_HEADERS = {**HEADERS, "cache-control": "no-cache"}
LIBRARY_HEADERS = {**HEADERS, "cache-control": "public, max-age=604800", "vary": "accept-encoding"}

router = APIRouter(include_in_schema=False)


@cache
def dashboard_directory() -> Path:
    """Where the dashboard's files are: in the installed package, else in the repository."""
    packaged = Path(__file__).parents[2] / "dashboard"
    return packaged if packaged.is_dir() else Path(__file__).parents[4] / "clients" / "dashboard"


@cache
def assets() -> dict[str, Path]:
    """Every file of the dashboard by its name: nothing else can be asked for."""
    return {path.name: path for path in dashboard_directory().iterdir() if path.is_file()}


@cache
def _plotly() -> tuple[Path, str] | None:
    """The script and its entity tag; without importing plotly, which takes a second."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "package_data" / PLOTLY, f'"plotly-{version("plotly")}"'


@cache
def _compressed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), compresslevel=6)


@router.get("/")
async def page() -> FileResponse:
    """The page, whose hash says what it shows."""
    return FileResponse(assets()["index.html"], headers=PAGE_HEADERS)


@router.get(f"/dashboard/{PLOTLY}")
def plotly(
    accept_encoding: Annotated[str, Header()] = "", if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """The charts' library: a large file that seldom changes."""
    found = _plotly()
    if found is None:
        raise HTTPException(404, "charts need plotly: pip install 'optimist[server]'")
    path, etag = found
    headers = {**LIBRARY_HEADERS, "etag": etag}
    if if_none_match == etag:
        return Response(status_code=304, headers=headers)
    if "gzip" not in accept_encoding:
        return FileResponse(path, media_type="text/javascript", headers=headers)
    return Response(_compressed(path), media_type="text/javascript", headers={**headers, "content-encoding": "gzip"})


@router.get("/dashboard/{name}")
async def asset(name: str) -> FileResponse:
    """A module, the styles or an icon."""
    if name not in assets():
        raise HTTPException(404, f"the dashboard has no file {name!r}")
    media_type = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return FileResponse(assets()[name], media_type=media_type, headers=ASSET_HEADERS)


def install(app: FastAPI) -> None:
    """Serve the dashboard, where its files are."""
    if dashboard_directory().is_dir():
        app.include_router(router)
