"""The storage of a location. The libraries for object stores are imported when one is opened."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Storage


def open_storage(location: str, options: Mapping[str, str] | None = None) -> Storage:
    """Open a folder, or a URL such as ``s3://bucket/journal`` with delta-rs's storage options."""
    if "://" not in location:
        return LocalStorage(Path(location))
    from obstore.store import from_url

    from delta_store.storage.object_storage import ObjectStorage

    settings: Any = dict(options or {})
    plain_http = settings.pop("allow_http", settings.pop("AWS_ALLOW_HTTP", "false")).lower() == "true"
    store = from_url(
        location,
        config=settings,
        client_options={"allow_http": plain_http, "timeout": "20s", "connect_timeout": "5s"},
        retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=30)},
    )
    return ObjectStorage(store, uri=location, options=dict(options or {}))
