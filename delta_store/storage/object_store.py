"""Object stores opened, by delta-rs's storage options."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from delta_store.values.journal_errors import StorageFailed

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_TIMEOUT, _CONNECT_TIMEOUT = "20s", "5s"
_RETRY_SECONDS = 30.0


def open_object_store(
    url: str, options: Mapping[str, str], *, retries: int = 5, timeout: str | None = None
) -> "ObjectStore":
    """Return the store rooted at ``url``; ``timeout`` is that of one request, as in the options ("20s").

    Raises :class:`StorageFailed` for options that name no store. Nothing is sent.
    """
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    settings: Any = dict(options)
    plain_http = settings.pop("allow_http", settings.pop("AWS_ALLOW_HTTP", "false")).lower() == "true"
    client: Any = {
        "allow_http": plain_http,
        "timeout": settings.pop("timeout", _TIMEOUT),
        "connect_timeout": settings.pop("connect_timeout", _CONNECT_TIMEOUT),
    }
    if timeout is not None:
        client |= {"timeout": timeout, "connect_timeout": timeout}
    retry: Any = {"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
    try:
        return from_url(url, config=settings, client_options=client, retry_config=retry)
    except (BaseError, ValueError) as error:
        raise StorageFailed(url, first_line(error)) from error


def first_line(error: BaseException) -> str:
    """Return an error's first line, at most 200 characters: stores answer with whole documents, which may name keys."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
