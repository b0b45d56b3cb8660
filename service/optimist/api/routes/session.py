"""Routes of the session: the caller's identity, and signing in with a cookie that scripts cannot read."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from optimist.api.context import SettingsDep
from optimist.api.middleware.access import COOKIE, CallerDep
from optimist.api.middleware.permissions import SESSION
from optimist_client.models import Session

router = APIRouter(prefix=SESSION, tags=["access"])


@router.get("")
async def get_session(caller: CallerDep, settings: SettingsDep) -> Session:
    """The caller: namespace and role of the access key, and the experiments it is restricted to."""
    return Session(
        namespace=caller.namespace,
        role=caller.role,
        experiments=sorted(caller.experiments),
        key=caller.key or None,
        image_hosts=list(settings.image_hosts),
    )


@router.post("")
async def sign_in(request: Request, response: Response, caller: CallerDep, settings: SettingsDep) -> Session:
    """Store the key of this request's `Authorization` header as a cookie that scripts and other sites cannot use.

    The cookie is valid until the browser is closed or the key is revoked.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme:
        is_secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, key.strip(), httponly=True, samesite="strict", secure=is_secure)
    return await get_session(caller, settings)


@router.delete("", status_code=204)
async def sign_out(response: Response) -> None:
    """Delete the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
