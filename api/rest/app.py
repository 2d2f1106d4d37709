"""The REST API as an ASGI app."""

from fastapi import FastAPI

from api.rest import messages, problems, streams
from api.rest.problems import Problem
from api.rest.store import RestStore
from conf.settings import Settings

_DESCRIPTION = "Streams and their messages, now and at any past point within the history horizon. Read-only."


def create_app(store: RestStore, settings: Settings) -> FastAPI:
    """The app over a store that someone else keeps fresh."""
    app = FastAPI(title="Silt", version="1", description=_DESCRIPTION, redoc_url=None)
    problems.install(app)
    app.include_router(streams.routes(store, settings))
    app.include_router(messages.routes(store, settings))
    _describe_problem(app)
    return app


def _describe_problem(app: FastAPI) -> None:
    """Put the problem's schema where the routes' descriptions point to."""
    made = app.openapi

    def openapi() -> dict[str, object]:
        described = made()
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        described.setdefault("components", {}).setdefault("schemas", {})["Problem"] = schema
        return described

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the description
