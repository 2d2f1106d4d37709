"""The storage of a location. The libraries for object stores are imported when one is opened."""

from collections.abc import Mapping
from pathlib import Path

from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.object_store import open_object_store
from delta_store.storage.storage import Storage


def open_storage(location: str, options: Mapping[str, str] | None = None) -> Storage:
    """Open a folder, or a URL such as ``s3://bucket/journal`` with delta-rs's storage options."""
    if "://" not in location:
        return LocalStorage(Path(location))
    from delta_store.storage.object_storage import ObjectStorage

    options = dict(options or {})
    return ObjectStorage(open_object_store(location, options), uri=location, options=options)
