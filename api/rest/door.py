"""The one door in front of every HTTP route: it checks the Host header, then the key, then its scopes.

As it is in front of the routes, a new one is closed until :mod:`api.rest.access` opens it. A browser led here by
another site's name (DNS rebinding) sends that name as Host and is refused, with or without keys.
"""

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from api.rest import problems
from api.rest.access import EVERYBODY, Need, Principal, need_of
from api.rest.keys import Keyring, NotRecognised
from conf.settings import HttpSettings

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_PRINCIPAL: Final = "silt.principal"


class Door:
    """An ASGI middleware that admits requests."""

    def __init__(self, app: ASGIApp, *, keyring: Keyring | None, hosts: Sequence[str] | None) -> None:
        """``hosts`` are the names allowed in the Host header, None for all; without a keyring no key is needed."""
        self._app = app
        self._keyring = keyring
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope[_PRINCIPAL] = self._entering(scope)
        except problems.Refused as refused:
            await problems.problem(refused)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _entering(self, scope: Scope) -> Principal:
        headers = Headers(scope=scope)
        if self._hosts is not None and _host_of(headers.get("host", "")) not in self._hosts:
            raise problems.wrong_host()
        need = need_of(scope["path"], scope["method"])
        if self._keyring is None or need is None:
            return EVERYBODY
        principal = self._principal(headers, self._keyring)
        if need.action is not None and not principal.may(need.action, need.stream):
            raise problems.forbidden(_said(need))
        return principal

    @staticmethod
    def _principal(headers: Headers, keyring: Keyring) -> Principal:
        shown = headers.getlist("authorization")
        scheme, _, credential = (shown[0] if len(shown) == 1 else "").partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            raise problems.unauthorized("show a key: Authorization: Bearer …", "Bearer")
        try:
            return keyring.principal(credential.strip())
        except NotRecognised:
            raise problems.unauthorized("the key is not valid", 'Bearer error="invalid_token"') from None


def principal_of(request: Request) -> Principal:
    """Return the principal that the door admitted; :data:`EVERYBODY` for an app without a door."""
    principal = request.scope.get(_PRINCIPAL, EVERYBODY)
    assert isinstance(principal, Principal)
    return principal


def allowed_hosts(settings: HttpSettings) -> Sequence[str] | None:
    """Return the names allowed in the Host header: those of the settings, or loopback's and the listener's own.

    None, for all, if the listener is on every address and the settings have none: a foreign page lacks the keys.
    """
    if settings.allowed_hosts:
        return settings.allowed_hosts
    if settings.host in ("0.0.0.0", "::"):  # noqa: S104  # compared, not bound
        return None
    return (*_LOOPBACK_NAMES, f"[{settings.host}]" if ":" in settings.host else settings.host)


def _host_of(text: str) -> str:
    """Return the Host header without its port."""
    host = text.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _said(need: Need) -> str:
    return f"the key lacks the scope {need.action}" + (f":{need.stream}" if need.stream else "")
