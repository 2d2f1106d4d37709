"""Routes that are built when a request could first be for them: describing them costs a start tens of milliseconds."""

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from api.rest.access import CUTS, LASTS, SHARING, SQL

_PATHS: Final = (CUTS, LASTS, SHARING, SQL, "/openapi.json")


class LateRoutes:
    """An ASGI middleware that calls ``add`` once, before such a request."""

    def __init__(self, app: ASGIApp, *, add: Callable[[], None]) -> None:
        self._app = app
        self._add: Callable[[], None] | None = add

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if self._add is not None and scope["type"] == "http" and _may_need(scope):
            add, self._add = self._add, None
            add()
        await self._app(scope, receive, send)


def _may_need(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] == "POST" or path.startswith(_PATHS)
