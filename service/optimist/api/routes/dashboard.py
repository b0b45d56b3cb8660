"""Serves the dashboard at `/` and the page of the HTTP API at `/docs`: static files under addresses that change with
their content; and the session, which is how the page signs in: with a cookie that scripts cannot read.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import mimetypes
import time
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Header, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute

from optimist.api.app_state import AppStateDep
from optimist.api.bundle import bundled
from optimist.api.middleware.access import COOKIE, CallerDep
from optimist.api.middleware.permissions import IDENTIFY, PUBLIC, GuardedRoute, permits
from optimist_client.models import Session

session = APIRouter(prefix="/v1/session", tags=["access"], route_class=GuardedRoute)
SCRIPT = "page.js"
"""The name of all modules of the page together."""
LIBRARIES = ("static/swagger-ui-bundle.js", "static/swagger-ui.css")
"""Files of the wheel of fastapi-offline that are served with the dashboard's own."""
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        # The page and Swagger UI set inline styles. No text from users is used in styles.
        "style-src 'self' 'unsafe-inline'",
        # A user may load an image from any host. By itself the page loads images only from the hosts in the settings.
        "img-src 'self' data: http: https:",
        "media-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
"""Content-Security-Policy of the page: even if a name were inserted as HTML, its scripts could not run."""
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
PAGE_HEADERS = {**HEADERS, "content-security-policy": POLICY, "cache-control": "no-cache"}
router = APIRouter(include_in_schema=False, route_class=GuardedRoute)


@session.get("")
@permits(IDENTIFY)
async def get_session(caller: CallerDep, app: AppStateDep) -> Session:
    """The caller: namespace and role of the access key, and the experiments it is restricted to."""
    return Session(
        namespace=caller.namespace,
        role=caller.role,
        experiments=sorted(caller.experiments),
        key=caller.key or None,
        previews=caller.previews,
        image_hosts=list(app.settings.image_hosts),
    )


@session.post("")
@permits(IDENTIFY)
async def sign_in(request: Request, response: Response, caller: CallerDep, app: AppStateDep) -> Session:
    """Store the key of this request's `Authorization` header as a cookie that scripts and other sites cannot use.

    The cookie is valid until the browser is closed or the key is revoked.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme:
        is_secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, key.strip(), httponly=True, samesite="strict", secure=is_secure)
    return await get_session(caller, app)


@session.delete("", status_code=204)
@permits(IDENTIFY)
async def sign_out(response: Response) -> None:
    """Delete the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


@cache
def dashboard_directory() -> Path:
    """The directory of the dashboard's files, in the installed package or else in the repository."""
    packaged = Path(__file__).parents[2] / "dashboard"
    return packaged if packaged.is_dir() else Path(__file__).parents[4] / "clients" / "dashboard"


class _Files(NamedTuple):
    """The files that may be served."""

    by_name: dict[str, Path]
    version: str
    """Part of the addresses of all files: it changes with any of them, so that browsers may keep each for ever."""


def files() -> _Files:
    """The dashboard's files, those too that came since the start, and `LIBRARIES`: looked for once a second at most, as
    a page requests several at once."""
    return _found(int(time.monotonic()))


@lru_cache(1)
def _found(second: int) -> _Files:
    del second  # what is remembered is of this second
    spec = importlib.util.find_spec("fastapi_offline")
    folders = spec.submodule_search_locations if spec else None
    libraries = [Path(folder) / name for folder in folders or () for name in LIBRARIES]
    own = [path for path in dashboard_directory().rglob("*") if path.is_file()]
    by_name = {path.name: path for path in own + libraries}
    digests = sorted(f"{name} {_content(path).digest}" for name, path in by_name.items())
    return _Files(by_name, hashlib.sha256("\n".join(digests).encode()).hexdigest()[:16])


class _Content(NamedTuple):
    digest: str
    compressed: bytes


def _content(path: Path) -> _Content:
    status = path.stat()
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(256)
def _read(path: Path, size: int, changed: int) -> _Content:
    content = path.read_bytes()
    return _Content(hashlib.sha256(content).hexdigest(), gzip.compress(content, mtime=0))


@lru_cache(1)
def _script(version: str) -> bytes:
    """The page's modules as one script, compressed."""
    del version  # the script changes with it
    return gzip.compress(bundled(dashboard_directory(), "app").encode(), mtime=0)


def _html(name: str) -> HTMLResponse:
    """A page with the version in the addresses of its files."""
    page = (dashboard_directory() / name).read_text()
    return HTMLResponse(page.replace('"dashboard/', f'"dashboard/{files().version}/'), headers=PAGE_HEADERS)


@router.get("/")
@permits(PUBLIC)
def page() -> HTMLResponse:
    """The dashboard's page. The fragment of the URL selects what it shows."""
    return _html("index.html")


@router.get("/docs")
@permits(PUBLIC)
def api_page() -> HTMLResponse:
    """The page of the HTTP API. Unlike FastAPI's own page, it loads nothing from other hosts."""
    return _html("docs.html")


@router.get("/dashboard/{version}/{name}")
@permits(PUBLIC)
def file(version: str, name: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
    """One file: of the dashboard (a module, the styles or an icon), or of a library. A file of another version is the
    present one: another replica may have made the page."""
    by_name, present = files()
    path = by_name.get("app.js" if name == SCRIPT else name)
    if path is None:
        raise HTTPException(404, f"the dashboard has no file {name!r}")
    media_type = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    keeps = "public, max-age=31536000, immutable" if version == present else "no-cache"
    headers = {**HEADERS, "cache-control": keeps, "vary": "accept-encoding"}
    compressed = _script(present) if name == SCRIPT else _content(path).compressed
    if "gzip" not in accept_encoding:
        return Response(gzip.decompress(compressed), media_type=media_type, headers=headers)
    return Response(compressed, media_type=media_type, headers={**headers, "content-encoding": "gzip"})


def routes() -> list[BaseRoute]:
    """The routes of sessions, and the routes of the page if its files are installed."""
    return [*session.routes, *(router.routes if dashboard_directory().is_dir() else ())]
