"""The REST API as an ASGI app."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Depends, FastAPI, Request

from api.rest import messages, multi_last, past, problems, process, ranges, streams, tail
from api.rest.access import OPEN_PATHS, SHARES
from api.rest.compression import Compression
from api.rest.door import Door, allowed_hosts
from api.rest.keys import open_keyring
from api.rest.late_routes import LateRoutes
from api.rest.negotiation import known_parameters
from api.rest.problems import Problem
from api.rest.services import Services
from api.rest.store import RestStore
from conf.settings import Settings

_DESCRIPTION = "Streams and their messages, now and at any past point within the history horizon."


def create_app(store: RestStore, settings: Settings, services: Services | None = None) -> FastAPI:
    """Return the app over a store that the caller refreshes; without services it answers from the store alone.

    Raises ``SettingsError`` for keys that can't be read.
    """
    services = services or Services()
    app = FastAPI(
        title="Silt",
        version="1",
        description=_DESCRIPTION,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        dependencies=[Depends(known_parameters), Depends(_once_open(store))],
    )
    problems.install(app)

    def add_late() -> None:
        from api.rest import cuts, lasts_together, past_work, publish, sharing, sql

        app.include_router(publish.routes(store, services))
        app.include_router(past_work.routes(store, services))
        app.include_router(sql.routes(settings, services))
        app.include_router(lasts_together.routes(store))
        app.include_router(cuts.routes(store, services))
        app.include_router(sharing.routes(store, settings, services))

    app.add_middleware(LateRoutes, add=add_late)
    app.add_middleware(Compression)
    keyring = open_keyring(settings.http)
    app.add_middleware(Door, keyring=keyring, hosts=allowed_hosts(settings.http))
    app.include_router(process.routes(store))
    app.include_router(streams.routes(store, settings))
    app.include_router(ranges.routes(store, settings))
    app.include_router(multi_last.routes(store))
    app.include_router(tail.routes(store, services))
    app.include_router(messages.routes(store))
    app.include_router(past.routes(store, settings))
    _describe(app, closed=keyring is not None)
    return app


def _once_open(store: RestStore) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that answers streams and messages with 503 until the store is open."""

    async def check(request: Request) -> None:
        if not store.opened and request.url.path.startswith(("/v1/", SHARES)):
            raise problems.still_opening(store.opening)

    return check


def _describe(app: FastAPI, *, closed: bool) -> None:
    """Add the problem's schema, to which the routes' descriptions refer, in place of FastAPI's own error.

    ``closed``: all paths but the open ones need a bearer key.
    """
    made = app.openapi

    def openapi() -> dict[str, Any]:
        described = made()
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas = described.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = schema
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        described["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path, operations in described["paths"].items():
            for operation in operations.values():
                operation["responses"].pop("422", None)
                operation["security"] = [{"bearer": []}] if closed and path not in OPEN_PATHS else []
        return described

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the description
