"""``$JS.API.STREAM.MULTI_LAST``: the last message of each subject of several streams at one instant. Silt's own."""

from typing import Any, Final

from api.jetstream.api_call import ApiCall, AskedLasts, Result
from api.jetstream.request_shapes import MULTI_LAST_REQUEST
from api.jetstream.responses import message_json
from conf.limits import MULTI_LAST_STREAMS_MAX, MULTI_LAST_SUBJECTS_MAX
from delta_store.config import api_errors
from delta_store.reading.read_plan import FoundLasts, WantedLasts
from delta_store.values.point_shape import AS_OF
from delta_store.values.subjects import valid

_ENCODED: Final = 2
"""Bytes of a reply to a byte of a message, at most: its base64 and what is beside it."""


def multi_last(call: ApiCall) -> Result:
    """Return the last message of each subject that a filter matches, with its stream, now or at a past point.

    A page tells the place of its last message in ``next`` where others follow. Pages are of one instant where the point
    is: more than a page of now is refused.
    """
    call.require_body()
    request = call.body(MULTI_LAST_REQUEST)
    if call.told is None:
        return AskedLasts(_wanted(call, request), request.get(AS_OF))
    assert isinstance(call.told, FoundLasts)
    found, more = call.told
    page = found[: call.page(len(found))]
    shown: dict[str, Any] = {"messages": [{"stream": stream, **message_json(one)} for stream, one in page]}
    if more or len(page) < len(found):
        if AS_OF not in request:
            raise api_errors.multi_last_refused(f"more than one reply holds: take a cut, and give it in {AS_OF}")
        stream, last = page[-1]
        shown["next"] = {"stream": stream, "seq": last.seq}
    return shown


def _wanted(call: ApiCall, request: dict[str, Any]) -> WantedLasts:
    """Return the page that is asked for. Raises ``ApiRefusal``."""
    streams = {stream: filters or (">",) for stream, filters in request.get("streams", {}).items()}
    after = request.get("after", {})
    if not 0 < len(streams) <= MULTI_LAST_STREAMS_MAX:
        raise api_errors.multi_last_refused(f"name 1 to {MULTI_LAST_STREAMS_MAX} streams in streams")
    for stream, filters in streams.items():
        if stream not in call.catalog.streams:
            raise api_errors.no_such_stream(stream)
        if wrong := [one for one in filters if not valid(one)]:
            raise api_errors.multi_last_refused(f"{wrong[0]!r} is no subject filter")
    return WantedLasts(
        tuple(sorted((stream, tuple(filters)) for stream, filters in streams.items())),
        (after.get("stream", ""), after.get("seq", 0)),
        MULTI_LAST_SUBJECTS_MAX,
        call.account.reply_bytes_max // _ENCODED,
    )
