"""Delta Sharing: each stream as a table, now and at any point, for readers without access to the tables' storage.

Shares, schemas and tables are listed by what the key may read. A version is a sequence: the state right after it.
"""

import re
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from api.formats.table_format import TableFormat
from api.rest import problems
from api.rest.access import SHARED_FILES, SHARES, Action
from api.rest.descriptions import TIME, answer
from api.rest.door import principal_of
from api.rest.negotiation import JSON, serves
from api.rest.parameters import exclusive, time_ns
from api.rest.services import Services
from api.rest.shared_files import SharedFile
from api.rest.sharing_lines import (
    LINES,
    SCHEMA,
    SHARE,
    SharesBody,
    TablesBody,
    file_line,
    head_lines,
    lines,
    table_query,
)
from api.rest.sql_frames import SqlQuestion
from api.rest.store import RestStore
from api.rest.streams import find_stream
from conf.limits import LIST_PAGE, MIB, SEQUENCE_MAX
from conf.settings import HttpSettings, Settings
from delta_store.dialect.times import format_time
from delta_store.reading.read_plan import PastPlan
from delta_store.streams.stream_state import StreamState

_TABLE: Final = "/{share}/schemas/{schema}/tables/{table}"
_LISTED: Final = problems.responses(404, 503)
_LINES: Final = {
    **answer({LINES: {"schema": {"type": "string"}}}, headers=("Delta-Table-Version",)),
    **problems.responses(404, 410, 413, 501, 503, 504),
}
_RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_Share = Annotated[str, Path(json_schema_extra={"enum": [SHARE]})]
_Schema = Annotated[str, Path(json_schema_extra={"enum": [SCHEMA]})]
_Table = Annotated[str, Path(description="Name of the stream")]
_Most = Annotated[int, Query(alias="maxResults", ge=1, le=LIST_PAGE)]
_Token = Annotated[str | None, Query(alias="pageToken", description="``nextPageToken`` of the page before")]


class TableQuery(BaseModel):
    """What a reader asks of a table; the hints that it may give are not needed to answer."""

    model_config = ConfigDict(extra="allow")

    version: int | None = Field(None, ge=0, le=SEQUENCE_MAX, description="A sequence: the state right after it")
    timestamp: str | None = Field(None, description="The state at this time (RFC 3339)", json_schema_extra=TIME)


def routes(store: RestStore, settings: Settings, services: Services) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(tags=["sharing"])
    _list_routes(router, store)
    _table_routes(router, store, settings.http, services)

    @router.get(f"{SHARED_FILES}/{{name}}", include_in_schema=False)
    @router.head(f"{SHARED_FILES}/{{name}}", include_in_schema=False)
    async def shared_file(
        name: str, expires: int, signature: str, wanted: Annotated[str | None, Header(alias="range")] = None
    ) -> Response:
        """A rendered table, or a part of its file."""
        if services.shared is None:
            raise problems.no_sql()
        return _part(services.shared.find(name, expires, signature), wanted)

    return router


def _list_routes(router: APIRouter, store: RestStore) -> None:
    """Add the routes that list."""
    kept: dict[str, Any] = {"dependencies": [Depends(serves(JSON))], "responses": _LISTED}

    @router.get(SHARES, response_model=SharesBody, **kept)
    async def shares(most: _Most = LIST_PAGE, token: _Token = None) -> dict[str, Any]:
        """The shares; there is one."""
        del most, token
        return {"items": [{"name": SHARE}]}

    @router.get(f"{SHARES}/{{share}}", **kept)
    async def share(share: _Share) -> dict[str, Any]:
        """One share."""
        _check(share)
        return {"share": {"name": SHARE}}

    @router.get(f"{SHARES}/{{share}}/schemas", response_model=SharesBody, **kept)
    async def schemas(share: _Share, most: _Most = LIST_PAGE, token: _Token = None) -> dict[str, Any]:
        """The schemas of a share; there is one."""
        del most, token
        _check(share)
        return {"items": [{"name": SCHEMA, "share": SHARE}]}

    async def tables(request: Request, most: int, token: str | None) -> dict[str, Any]:
        principal = principal_of(request)
        readable = sorted(name for name in store.catalog.streams if principal.may(Action.READ, name))
        rest = [name for name in readable if token is None or name > token]
        page = [{"name": name, "schema": SCHEMA, "share": SHARE} for name in rest[:most]]
        return {"items": page, **({"nextPageToken": rest[most - 1]} if len(rest) > most else {})}

    @router.get(
        f"{SHARES}/{{share}}/schemas/{{schema}}/tables",
        response_model=TablesBody,
        response_model_exclude_none=True,
        **kept,
    )
    async def shared_tables(
        request: Request, share: _Share, schema: _Schema, most: _Most = LIST_PAGE, token: _Token = None
    ) -> dict[str, Any]:
        """The streams that the key opens, ordered by name."""
        _check(share, schema)
        return await tables(request, most, token)

    @router.get(f"{SHARES}/{{share}}/all-tables", response_model=TablesBody, response_model_exclude_none=True, **kept)
    async def all_tables(
        request: Request, share: _Share, most: _Most = LIST_PAGE, token: _Token = None
    ) -> dict[str, Any]:
        """The same for all schemas of a share."""
        _check(share)
        return await tables(request, most, token)


def _table_routes(router: APIRouter, store: RestStore, settings: HttpSettings, services: Services) -> None:
    """Add the routes of one table."""
    kept: dict[str, Any] = {
        "response_class": Response, "responses": _LINES, "dependencies": [Depends(serves(LINES, JSON))],
    }  # fmt: skip

    @router.get(f"{SHARES}{_TABLE}/version", **kept)
    async def table_version(
        share: _Share,
        schema: _Schema,
        table: _Table,
        since: Annotated[
            str | None, Query(alias="startingTimestamp", description="RFC 3339", json_schema_extra=TIME)
        ] = None,
    ) -> Response:
        """The newest version of a table, or the first one from a time on, in the header ``Delta-Table-Version``."""
        state = await _fresh(store, share, schema, table)
        version = state.index.last_seq
        if since is not None:
            version = await _sequence_before(store, state, time_ns(since)) + 1
            if version > state.index.last_seq:
                raise problems.bad_request("startingTimestamp: there is no version since")
        return lines([], version)

    @router.get(f"{SHARES}{_TABLE}/metadata", **kept)
    async def table_metadata(share: _Share, schema: _Schema, table: _Table) -> Response:
        """The columns of a table."""
        state = await _fresh(store, share, schema, table)
        return lines(head_lines(table, state.stream_id), state.index.last_seq)

    @router.post(f"{SHARES}{_TABLE}/query", **kept)
    async def query_table(
        request: Request, share: _Share, schema: _Schema, table: _Table, asked: TableQuery | None = None
    ) -> Response:
        """The table now, at a version or at a time: a Parquet file, by a URL that opens it for a while."""
        if services.shared is None:
            raise problems.no_sql()
        asked = asked or TableQuery()
        exclusive(version=asked.version, timestamp=asked.timestamp)
        state = await _fresh(store, share, schema, table)
        version, point = await _point(store, state, asked)
        key = f"{table} {state.stream_id} {version} {point or store.journal_version}"
        question = SqlQuestion(
            table_query(table, version, point),
            TableFormat.PARQUET,
            principal_of(request).readable,
            seconds=settings.sql_timeout_seconds,
            memory_bytes=settings.sql_memory_mib * MIB,
        )
        file = await services.shared.render(key, question)
        place, expires_ms = services.shared.signed(file)
        url = f"{str(request.base_url).rstrip('/')}{SHARED_FILES}/{place}"
        shown = file_line(file.name, file.size, url, expires_ms)
        return lines([*head_lines(table, state.stream_id), shown], version)


def _check(share: str, schema: str = SCHEMA) -> None:
    if share != SHARE or schema != SCHEMA:
        raise problems.Refused(404, problems.OTHER, f"there is one share, {SHARE}, with one schema, {SCHEMA}")


async def _fresh(store: RestStore, share: str, schema: str, table: str) -> StreamState:
    """Return the stream of a table with all that was committed before the call. Raises :class:`problems.Refused`."""
    _check(share, schema)
    await store.refresh()
    return await find_stream(store, table)


async def _point(store: RestStore, state: StreamState, asked: TableQuery) -> tuple[int, str | None]:
    """Return the version that is asked for, and its point as SQL takes it; None for now."""
    last = state.index.last_seq
    if asked.timestamp is not None:
        at_ns = time_ns(asked.timestamp)
        return await _sequence_before(store, state, at_ns), format_time(at_ns)
    if asked.version is None:
        return last, None
    if asked.version > last:
        raise problems.bad_request(f"version: the newest is {last}")
    return asked.version, str(asked.version)


async def _sequence_before(store: RestStore, state: StreamState, at_ns: int) -> int:
    """Return the last sequence before a time; 0 when the stream had none."""
    plan = PastPlan(state.config.name, (), None, at_ns, 0)
    return (await store.reader.read_past(plan)).up_to_seq


def _part(file: SharedFile, wanted: str | None) -> Response:
    """Return a file, or the one range of its bytes that is asked for (RFC 9110, 14.2); HEAD gets no body anyway."""
    found = _RANGE.fullmatch(wanted or "")
    start = int(found[1]) if found else 0
    end = min(int(found[2]) + 1, file.size) if found and found[2] else file.size
    headers = {"Accept-Ranges": "bytes", "Content-Length": str(max(0, end - start))}
    if found and start >= end:
        refused = {"Content-Range": f"bytes */{file.size}"}
        raise problems.Refused(416, problems.OTHER, "there are no such bytes", refused)
    if found:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    chunks = partial(file.part, start, end)
    kind = TableFormat.PARQUET.media_type
    return StreamingResponse(chunks(), 206 if found else 200, headers, kind)
