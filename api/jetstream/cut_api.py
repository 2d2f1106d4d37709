"""``$JS.API.CUT.CREATE``, ``LIST`` and ``DELETE``: named points over all streams. They are Silt's own."""

from typing import Any

from api.jetstream.api_call import ApiCall, Result
from api.jetstream.request_shapes import CUT_LIST_REQUEST
from conf.limits import NAMES_PAGE
from delta_store.config import api_errors
from delta_store.dialect.times import format_time
from delta_store.streams import cuts
from delta_store.values.as_of import NotAPoint, cut_name
from delta_store.values.cut_record import CUTS


def create(call: ApiCall) -> Result:
    """Name the point that all streams are at; the reply comes when it is durable, as all that happened before it."""
    call.refuse_body()
    streams, name = len(call.catalog.streams), _name(call)
    time_ns = cuts.take(call.catalog, name, now_ns=call.now_ns, rows=call.rows)
    return {**_shown(name, time_ns), "streams": streams}


def listing(call: ApiCall) -> Result:
    """Return a page of the cuts, oldest first."""
    request = call.optional_body(CUT_LIST_REQUEST) or {}
    found = cuts.taken(call.catalog.streams.get(CUTS))
    offset, limit = min(max(request.get("offset", 0), 0), len(found)), call.page(NAMES_PAGE)
    page = [_shown(*one) for one in found[offset : offset + limit]]
    return {"total": len(found), "offset": offset, "limit": limit, "cuts": page}


def delete(call: ApiCall) -> Result:
    """Forget a cut; what it named stays as readable as it was."""
    call.refuse_body()
    cuts.drop(call.catalog, _name(call), now_ns=call.now_ns, rows=call.rows)
    return {"success": True}


def _name(call: ApiCall) -> str:
    """Return the name that the subject ends with. Raises ``ApiRefusal``."""
    try:
        return cut_name(call.names[0])
    except NotAPoint as error:
        raise api_errors.cut_name_invalid(str(error)) from None


def _shown(name: str, time_ns: int) -> dict[str, Any]:
    return {"name": name, "time": format_time(time_ns)}
