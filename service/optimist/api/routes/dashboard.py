"""Serves the dashboard at `/` and the page of the HTTP API at `/docs`: static files, and libraries from wheels; and the
session, which is how the page signs in: with a cookie that scripts cannot read.
"""

from __future__ import annotations

import gzip
import importlib.util
import mimetypes
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import FileResponse

from optimist.api.context import SettingsDep
from optimist.api.middleware.access import COOKIE, CallerDep
from optimist.api.middleware.keys import SESSION
from optimist_client.models import Session

session = APIRouter(prefix=SESSION, tags=["access"])
LIBRARIES = {
    "plotly.min.js": ("plotly", "package_data/plotly.min.js"),
    "swagger-ui-bundle.js": ("fastapi_offline", "static/swagger-ui-bundle.js"),
    "swagger-ui.css": ("fastapi_offline", "static/swagger-ui.css"),
}
"""Files that come from the wheels of other packages: the package, and the path in it."""
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        # plotly.js and Swagger UI set inline styles. No text from users is used in styles.
        "style-src 'self' 'unsafe-inline'",
        # A user may load an image from any host. By itself the page loads images only from the hosts in the settings.
        "img-src 'self' data: http: https:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
"""Content-Security-Policy of the page: even if a name were inserted as HTML, its scripts could not run."""
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
PAGE_HEADERS = {**HEADERS, "content-security-policy": POLICY, "cache-control": "no-cache"}
ASSET_HEADERS = {**HEADERS, "cache-control": "no-cache"}
LIBRARY_HEADERS = {**HEADERS, "cache-control": "public, max-age=604800", "vary": "accept-encoding"}
router = APIRouter(include_in_schema=False)


@session.get("")
async def get_session(caller: CallerDep, settings: SettingsDep) -> Session:
    """The caller: namespace and role of the access key, and the experiments it is restricted to."""
    return Session(
        namespace=caller.namespace,
        role=caller.role,
        experiments=sorted(caller.experiments),
        key=caller.key or None,
        image_hosts=list(settings.image_hosts),
    )


@session.post("")
async def sign_in(request: Request, response: Response, caller: CallerDep, settings: SettingsDep) -> Session:
    """Store the key of this request's `Authorization` header as a cookie that scripts and other sites cannot use.

    The cookie is valid until the browser is closed or the key is revoked.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme:
        is_secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, key.strip(), httponly=True, samesite="strict", secure=is_secure)
    return await get_session(caller, settings)


@session.delete("", status_code=204)
async def sign_out(response: Response) -> None:
    """Delete the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


@cache
def dashboard_directory() -> Path:
    """The directory of the dashboard's files, in the installed package or else in the repository."""
    packaged = Path(__file__).parents[2] / "dashboard"
    return packaged if packaged.is_dir() else Path(__file__).parents[4] / "clients" / "dashboard"


def assets() -> dict[str, Path]:
    """The dashboard's files by name, those too that came since the start. No other files are served."""
    return {path.name: path for path in dashboard_directory().iterdir() if path.is_file()}


@cache
def _library(name: str) -> tuple[Path, str] | None:
    """The path of a library's file and its entity tag; None if its package is missing.

    The package is not imported: importing plotly takes a second.
    """
    package, file = LIBRARIES[name]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / file, f'"{package}-{version(package)}"'


@cache
def _compressed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), compresslevel=6)


@router.get("/")
async def page() -> FileResponse:
    """The dashboard's page. The fragment of the URL selects what it shows."""
    return FileResponse(assets()["index.html"], headers=PAGE_HEADERS)


@router.get("/docs")
async def api_page() -> FileResponse:
    """The page of the HTTP API. Unlike FastAPI's own page, it loads nothing from other hosts."""
    return FileResponse(assets()["docs.html"], headers=PAGE_HEADERS)


@router.get("/dashboard/{name}")
def file(
    name: str, accept_encoding: Annotated[str, Header()] = "", if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """One file: of the dashboard (a module, the styles or an icon), or of a library."""
    media_type = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    if name in LIBRARIES:
        return _of_library(name, media_type, "gzip" in accept_encoding, if_none_match)
    if name not in assets():
        raise HTTPException(404, f"the dashboard has no file {name!r}")
    return FileResponse(assets()[name], media_type=media_type, headers=ASSET_HEADERS)


def _of_library(name: str, media_type: str | None, compressed: bool, known: str | None) -> Response:
    """A library's file. They are large and seldom change, so they are compressed and cached."""
    found = _library(name)
    if found is None:
        raise HTTPException(404, f"{name} is of a package that is not installed: pip install 'optimist[server]'")
    path, etag = found
    headers = {**LIBRARY_HEADERS, "etag": etag}
    if known == etag:
        return Response(status_code=304, headers=headers)
    if not compressed:
        return FileResponse(path, media_type=media_type, headers=headers)
    return Response(_compressed(path), media_type=media_type, headers={**headers, "content-encoding": "gzip"})


def install(app: FastAPI) -> None:
    """Add the routes of sessions to `app`, and those of the page if its files are installed."""
    app.include_router(session)
    if dashboard_directory().is_dir():
        app.include_router(router)
