"""No route can be made without a permission."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, Request, Response

from optimist.api.middleware.permissions import READ, GuardedRoute, permission_of, permits
from optimist.api.middleware.service import RawRoute


async def unguarded(request: Request) -> Response:
    return Response()


@permits(READ)
async def guarded(request: Request) -> Response:
    return Response()


def test_a_route_without_a_permission_cannot_be_registered():
    router = APIRouter(route_class=GuardedRoute)
    for register in (router.get("/x"), router.post("/x"), lambda function: RawRoute("/x", function)):
        with pytest.raises(TypeError, match=r"unguarded.* has no permission"):
            register(unguarded)
        register(guarded)
    assert permission_of(guarded) is READ
