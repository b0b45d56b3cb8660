"""Routes of the session: who calls, and a browser's sign-in that keeps the key out of URLs and of scripts' reach."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from optimist.api.context import SettingsDep
from optimist.api.door.access import COOKIE, CallerDep
from optimist.api.door.permissions import SESSION
from optimist_client.models import Session

router = APIRouter(prefix=SESSION, tags=["access"])


@router.get("")
async def get_session(caller: CallerDep, settings: SettingsDep) -> Session:
    """Who calls: the namespace and role of the key, and the experiments it is bound to."""
    return Session(
        namespace=caller.namespace,
        role=caller.role,
        experiments=sorted(caller.experiments),
        key=caller.key or None,
        image_hosts=list(settings.image_hosts),
    )


@router.post("")
async def sign_in(request: Request, response: Response, caller: CallerDep, settings: SettingsDep) -> Session:
    """Give the browser the key of this request's `Authorization` as a cookie that scripts and other sites cannot use.

    It lasts until the browser is closed, or the key is revoked.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme:
        is_secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, key.strip(), httponly=True, samesite="strict", secure=is_secure)
    return await get_session(caller, settings)


@router.delete("", status_code=204)
async def sign_out(response: Response) -> None:
    """Take the cookie away."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
