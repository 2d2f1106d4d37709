"""Routes of this process: readiness, and metrics for Prometheus."""

from fastapi import APIRouter, Response

from api.rest import problems
from api.rest.bodies import ReadyBody
from api.rest.store import RestStore
from delta_store.reading.settle_watch import NO_REPORT


def routes(store: RestStore) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter()

    @router.get("/readyz", tags=["process"], responses=problems.responses(503))
    async def ready() -> ReadyBody:
        """Whether streams can be read here, and how far settling is behind; 503 while the store is being opened.

        Settling that is behind, or does not run, stops nobody from publishing and reading: it is told, not refused.
        """
        if not store.opened:
            raise problems.still_opening(store.opening)
        news, lag, seconds = await store.settling()
        return ReadyBody(
            status="ready",
            settle_state=news.state.value,
            unsettled_rows=lag and lag.rows,
            unsettled_bytes=lag and lag.bytes,
            unsettled_files=lag and lag.files,
            unsettled_seconds=seconds,
        )

    described = problems.responses(503)
    described[200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @router.get("/metrics", tags=["process"], response_class=Response, responses=described)
    async def metrics() -> Response:
        """Metrics in the text format of Prometheus."""
        report = await store.settling() if store.opened else NO_REPORT
        from api.rest.metrics import MEDIA_TYPE, render

        return Response(render(store, report), media_type=MEDIA_TYPE)

    return router
