"""The REST API as an ASGI app."""

from typing import Any

from fastapi import Depends, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from api.rest import messages, problems, streams
from api.rest.negotiation import known_parameters
from api.rest.problems import Problem
from api.rest.store import RestStore
from conf.limits import HTTP_COMPRESS_BYTES_MIN, HTTP_COMPRESS_LEVEL
from conf.settings import Settings

_DESCRIPTION = "Streams and their messages, now and at any past point within the history horizon. Read-only."


def create_app(store: RestStore, settings: Settings) -> FastAPI:
    """The app over a store that someone else keeps fresh."""
    app = FastAPI(
        title="Silt",
        version="1",
        description=_DESCRIPTION,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        dependencies=[Depends(known_parameters)],
    )
    problems.install(app)
    app.add_middleware(GZipMiddleware, minimum_size=HTTP_COMPRESS_BYTES_MIN, compresslevel=HTTP_COMPRESS_LEVEL)
    app.include_router(streams.routes(store, settings))
    app.include_router(messages.routes(store, settings))
    _describe_problem(app)
    return app


def _describe_problem(app: FastAPI) -> None:
    """Put the problem's schema where the routes' descriptions point to, in place of FastAPI's own kind of error."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        described = made()
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas = described.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = schema
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path in described["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        return described

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the description
