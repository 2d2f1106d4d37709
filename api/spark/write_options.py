"""The options of a write, parsed and checked, with the secrets that tasks need. Reads files of credentials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from api.spark.read_options import OptionError
from delta_store.values.subjects import literal

_NAMES: Final = (
    "servers", "url", "user", "password", "token", "credentials", "nkeySeed", "tlsCa", "subject", "stream", "writeId",
    "maxInFlight", "ackTimeoutSeconds", "giveUpSeconds",
)  # fmt: skip
_SPARKS: Final = frozenset(("path", "checkpointlocation", "queryname"))
"""What Spark adds by itself."""
_IN_FLIGHT: Final = 1_000
_ACK_SECONDS: Final = 5.0
_GIVE_UP_SECONDS: Final = 60.0


@dataclass(frozen=True)
class WriteOptions:
    """Where and how rows are published; a value that reaches every task."""

    servers: tuple[str, ...]
    login: Mapping[str, str] = field(repr=False)
    """``user``, ``password``, ``token``, ``credentials`` and ``nkey_seed`` (their content), ``tls_ca``."""
    subject: str | None
    """Of all rows, where they have no column of it."""
    stream: str | None
    """The stream that must take the messages."""
    write_id: str
    """Names a batch write in its messages' ids; a streaming query has an id of its own."""
    in_flight: int = _IN_FLIGHT
    ack_seconds: float = _ACK_SECONDS
    give_up_seconds: float = _GIVE_UP_SECONDS


def write_options(given: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """Parse the options of a write, and read the files that they name. Raises :class:`OptionError`."""
    options = {name.lower(): value for name, value in given.items()}
    known = {name.lower() for name in _NAMES} | _SPARKS
    if unknown := [name for name in options if name not in known]:
        raise OptionError(f"no such option: {', '.join(unknown)}; there are {', '.join(_NAMES)}")
    if overwrite:
        raise OptionError('a stream is appended to, never overwritten: use mode or outputMode "append"')
    servers = tuple(filter(None, map(str.strip, (options.get("servers") or options.get("url") or "").split(","))))
    if not servers:
        raise OptionError("give the NATS servers as the option servers, such as nats://127.0.0.1:4222")
    subject = options.get("subject")
    if subject is not None and not literal(subject):
        raise OptionError(f"option subject={subject!r}: it is no subject to publish to")
    login: dict[str, str] = {name: options[name] for name in ("user", "password", "token") if name in options}
    for name, key in (("credentials", "credentials"), ("nkeySeed", "nkey_seed"), ("tlsCa", "tls_ca")):
        if path := options.get(name.lower()):
            login[key] = _content(name, path)
    return WriteOptions(
        servers=servers,
        login=login,
        subject=subject,
        stream=options.get("stream"),
        write_id=options.get("writeid") or token_hex(8),
        in_flight=int(_positive(options, "maxInFlight", _IN_FLIGHT)),
        ack_seconds=_positive(options, "ackTimeoutSeconds", _ACK_SECONDS),
        give_up_seconds=_positive(options, "giveUpSeconds", _GIVE_UP_SECONDS),
    )


def _positive(options: Mapping[str, str], name: str, default: float) -> float:
    text: Any = options.get(name.lower(), default)
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e9:
        raise OptionError(f"option {name}={text!r}: it takes a number above 0")
    return value


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"option {name}={path!r}: the driver can't read the file: {error}") from error
