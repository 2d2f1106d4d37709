"""Arrow's file system for a table: a local folder, or an object store by delta-rs's storage options."""

from collections.abc import Mapping
from pathlib import Path

from pyarrow import fs as pa_fs


def filesystem_of(location: str, options: Mapping[str, str]) -> tuple[pa_fs.FileSystem, str]:
    """Return the file system of a folder or an object store's URL, and the table's root in it."""
    if "://" not in location:
        return pa_fs.LocalFileSystem(), str(Path(location).absolute())
    if location.startswith("s3://"):
        return _s3(options), location.removeprefix("s3://").rstrip("/")
    filesystem, root = pa_fs.FileSystem.from_uri(location)
    return filesystem, root.rstrip("/")


def _s3(options: Mapping[str, str]) -> pa_fs.FileSystem:
    """Return the S3 store that delta-rs's options name."""
    lower = {name.lower(): value for name, value in options.items()}
    endpoint = lower.get("aws_endpoint_url") or lower.get("endpoint_url")
    return pa_fs.S3FileSystem(
        access_key=lower.get("aws_access_key_id"),
        secret_key=lower.get("aws_secret_access_key"),
        session_token=lower.get("aws_session_token"),
        region=lower.get("aws_region"),
        endpoint_override=endpoint,
    )
