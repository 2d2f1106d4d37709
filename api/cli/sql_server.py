"""Answers from a server's ``/v1/sql``."""

import json
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from api.formats.table_format import TableFormat
from conf.error_text import error_text
from delta_store.sql.sql_errors import SqlError, SqlErrorKind, invalid

_CHUNK_BYTES: Final = 64 * 1024
_CONNECT_SECONDS: Final = 10.0


class ServerSql:
    """A server's ``POST /v1/sql``."""

    def __init__(self, url: str, *, key: str | None) -> None:
        """Ask the server at ``url``; raise ``ValueError`` where that is none."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is no URL of an HTTP server")
        self._open = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._address = (parts.hostname, parts.port)
        self._path = f"{parts.path.rstrip('/')}/v1/sql"
        self._shown = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
        self._key = key
        self._connection: HTTPConnection | None = None

    def chunks(self, statement: str, kind: TableFormat) -> Iterator[bytes]:
        """Run a statement; iterate over the bytes of its answer."""
        headers = {"Accept": kind.media_type, "Content-Type": "application/sql"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        self._connection = connection = self._open(*self._address, timeout=_CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(None)
            connection.request("POST", self._path, statement.encode(), headers)
            response = connection.getresponse()
            if response.status != 200:
                raise _refusal(response.status, response.read())
            while chunk := response.read1(_CHUNK_BYTES):
                yield chunk
        except (HTTPException, OSError, AttributeError) as error:
            raise ConnectionError(f"the server at {self._shown} does not answer: {error_text(error)}") from error
        finally:
            connection.close()

    def cancel(self) -> None:
        """End what runs: the server stops when its client is gone."""
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(2)

    def progress(self) -> float | None:
        """Return None: the server does not tell."""
        return None


def _refusal(status: int, body: bytes) -> Exception:
    """Return the error of an answer that is none."""
    try:
        problem = json.loads(body)
        text = str(problem.get("detail") or problem.get("title"))
    except (ValueError, AttributeError):
        text = body.decode(errors="replace")[:200] or "no reason given"
    if status in (401, 403):
        return SqlError(SqlErrorKind.REFUSED, f"{text} (HTTP status {status}): give a key by --key-file")
    return invalid(text if status == 400 else f"{text} (HTTP status {status})")
