"""The options of a read, parsed and checked. Pure but for the settings of the environment, which they may override."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from conf.data_location import DataLocation, data_location
from conf.settings import StorageSettings, load_settings
from delta_store.reading.message_bounds import LATEST_NS, MessageBounds
from delta_store.reading.state_at import END
from delta_store.values.as_of import NOW, AsOf, NotAPoint, parse_as_of
from delta_store.values.subjects import valid

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
STORAGE: Final = "storage."
_STARTS: Final = ("startingSequence", "startingTime", "startingPosition")
_ENDS: Final = ("endingSequence", "endingTime")
_NAMES: Final = (
    "path", "stream", "subject", *_STARTS, *_ENDS, "asOf", "maxMessagesPerTrigger",
    "maxRecordsPerPartition", "includeHeaders", "failOnDataLoss", "live", "pushdown",
)  # fmt: skip
_BATCH_ONLY: Final = (*_ENDS, "asOf", "pushdown")
_STREAM_ONLY: Final = ("maxMessagesPerTrigger", "maxRecordsPerPartition")
_PARTITION_MESSAGES: Final = 131_072
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


class OptionError(ValueError):
    """An option is unknown, wrong or contradicts another; the text names it and says what it takes."""


class ReadStart(NamedTuple):
    """Where reading begins: a sequence (inclusive), a time (inclusive), or one end of the stream."""

    seq: int | None = None
    ts_ns: int | None = None
    latest: bool = False


@dataclass(frozen=True)
class ReadOptions:
    """What is read, and how; a value that reaches every task."""

    data: DataLocation
    streams: tuple[str, ...]
    """Empty: those that take the subjects."""
    filters: tuple[str, ...]
    start: ReadStart
    end_seq: int = END
    end_ns: int = LATEST_NS
    """The last sequence and time, both inclusive."""
    as_of: AsOf = NOW
    max_messages: int | None = None
    partition_messages: int = _PARTITION_MESSAGES
    """Sequences of one partition of a streaming batch."""
    include_headers: bool = False
    fail_on_data_loss: bool = True
    live: bool = True
    pushdown: bool | None = None
    """Whether a batch takes over Spark's filters; None: where Spark does that right."""

    @property
    def bounds(self) -> MessageBounds:
        """The messages asked for, but for where they begin."""
        return MessageBounds(seqs=(1, self.end_seq), times=(0, self.end_ns), filters=self.filters)


def read_options(given: Mapping[str, str], *, streaming: bool, now_ns: int) -> ReadOptions:
    """Parse the options of a batch or a streaming query; ages count from ``now_ns``. Raises :class:`OptionError`."""
    options = {name.lower(): value for name, value in given.items()}
    _check_names(options, streaming=streaming)
    now = _EPOCH + timedelta(microseconds=now_ns // 1000)

    def one(name: str, parse: Callable[[str], _T]) -> _T | None:
        text = options.get(name.lower())
        try:
            return None if text is None else parse(text)
        except (ValueError, NotAPoint) as error:
            raise OptionError(f"option {name}={text!r}: {error}") from error

    def moment(text: str) -> int:
        return _ns(_time_of(parse_as_of(text, now=now)))

    point = one("asOf", lambda text: parse_as_of(text, now=now)) or NOW
    streams, filters = one("stream", _words) or (), one("subject", _filters) or (">",)
    if not streams and "subject" not in options:
        raise OptionError("give the option stream (one or more names) or subject (one or more filters)")
    end_ns, live = one("endingTime", moment), one("live", _flag)
    chosen = ReadOptions(
        data=_location(options),
        streams=streams,
        filters=filters,
        start=_start(one("startingSequence", _number), one("startingTime", moment), one("startingPosition", _end)),
        end_seq=one("endingSequence", _number) or END,
        end_ns=LATEST_NS if end_ns is None else end_ns - 1,
        as_of=point,
        max_messages=one("maxMessagesPerTrigger", _number),
        partition_messages=one("maxRecordsPerPartition", _number) or _PARTITION_MESSAGES,
        include_headers=one("includeHeaders", _flag) or False,
        fail_on_data_loss=one("failOnDataLoss", _flag) is not False,
        live=not streaming if live is None else live,
        pushdown=one("pushdown", _flag),
    )
    if chosen.start.latest and not streaming:
        raise OptionError(f"option startingPosition={LATEST} is for streaming queries")
    numbered = [chosen.start.seq, options.get("endingsequence"), point.seq]
    if len(streams) != 1 and any(one is not None for one in numbered):
        raise OptionError("a sequence means one stream: name it by the option stream, or give a time")
    return chosen


def _check_names(options: Mapping[str, str], *, streaming: bool) -> None:
    known = {name.lower(): name for name in _NAMES}
    unknown = [name for name in options if name not in known and not name.startswith(STORAGE)]
    if unknown:
        raise OptionError(f"no such option: {', '.join(unknown)}; there are {', '.join(_NAMES)}, {STORAGE}…")
    if wrong := [name for name in (_BATCH_ONLY if streaming else _STREAM_ONLY) if name.lower() in options]:
        raise OptionError(f"option {wrong[0]} is for {'batch' if streaming else 'streaming'} queries")
    for rivals in (_STARTS, (*_ENDS, "asOf")):
        both = [name for name in rivals if name.lower() in options]
        if len(both) > 1:
            raise OptionError(f"options {both[0]} and {both[1]} exclude each other")


def _location(options: Mapping[str, str]) -> DataLocation:
    """Return the location with the store's settings: the options', else the environment's."""
    path = options.get("path")
    if not path:
        raise OptionError("give the data folder or URL as the option path, or to load()")
    own = {name.removeprefix(STORAGE): value for name, value in options.items() if name.startswith(STORAGE)}
    if wrong := sorted(own.keys() - StorageSettings.model_fields.keys()):
        raise OptionError(f"no such option: {STORAGE}{wrong[0]}; it takes the settings of [storage]")
    try:
        data = data_location(path)
        return data if data.is_local else data.with_settings(load_settings(storage=own).storage)
    except ValueError as error:
        raise OptionError(f"option path={path!r}: {error}") from error


def _start(seq: int | None, ts_ns: int | None, end: str | None) -> ReadStart:
    return ReadStart(seq, ts_ns, latest=end == LATEST)


def _words(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(text.split()))
    if not words:
        raise ValueError("it is empty")
    return words


def _filters(text: str) -> tuple[str, ...]:
    words = _words(text)
    if wrong := [word for word in words if not valid(word)]:
        raise ValueError(f"{wrong[0]!r} is no subject filter")
    return words


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < END:
        raise ValueError("it takes a number from 1 on")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it takes true or false")
    return text.lower() == "true"


def _end(text: str) -> str:
    if text.lower() not in (EARLIEST, LATEST):
        raise ValueError(f"it takes {EARLIEST} or {LATEST}")
    return text.lower()


def _time_of(point: AsOf) -> datetime:
    if point.time is None:
        raise ValueError("it takes a time such as 2026-01-31T12:00:00Z, or an age such as 15m")
    return point.time


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
