"""A table's files opened for Arrow: of a local folder, or of an object store by delta-rs's storage options."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import pyarrow as pa
from pyarrow import fs as pa_fs

from delta_store.storage.object_store import first_line, open_object_store
from delta_store.values.read_errors import StoreAway

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_WHOLE_BYTES: Final = 1024 * 1024
"""Objects up to this size are read by one request: most files of the journal, and every footer of a small one."""


class FileOpener(Protocol):
    """Opens files by their paths below the root that comes with it."""

    def open_input_file(self, path: str) -> Any:
        """Return an Arrow file to read at any place; raise ``FileNotFoundError``, ``OSError`` or :class:`StoreAway`."""
        ...


def filesystem_of(location: str, options: Mapping[str, str]) -> tuple[FileOpener, str]:
    """Return the opener of the files of a folder or an object store's URL, and the table's root in it."""
    if "://" not in location:
        return pa_fs.LocalFileSystem(), str(Path(location).absolute())
    root = location.rstrip("/")
    return StoreFiles(open_object_store(root, options), root), root


class StoreFiles:
    """The objects below a URL. Thread-safe."""

    def __init__(self, store: "ObjectStore", root: str) -> None:
        self._store, self._root = store, root

    def open_input_file(self, path: str) -> Any:
        """Return an Arrow file: in memory where it is small, else read by ranges. Raises as :class:`FileOpener`."""
        import obstore
        from obstore.exceptions import BaseError

        name = path.removeprefix(f"{self._root}/")
        try:
            found = obstore.get(self._store, name)
            size = found.meta["size"]
            if size <= _WHOLE_BYTES:
                return pa.BufferReader(pa.py_buffer(found.bytes()))
        except (BaseError, OSError) as error:
            _raise(path, error)
        return pa.PythonFile(_Ranges(self._store, name, path, size), mode="r")


class _Ranges(io.RawIOBase):
    """An object read by ranges, one request for each."""

    def __init__(self, store: "ObjectStore", name: str, path: str, size: int) -> None:
        self._store, self._name, self._path, self._size = store, name, path, size
        self._at = 0

    def read(self, size: int | None = -1) -> bytes:
        import obstore
        from obstore.exceptions import BaseError

        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if not length:
            return b""
        try:
            body = bytes(obstore.get_range(self._store, self._name, start=self._at, length=length))
        except (BaseError, OSError) as error:
            _raise(self._path, error)
        self._at += len(body)
        return body

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _raise(path: str, error: BaseException) -> NoReturn:
    from obstore.exceptions import NotFoundError

    if isinstance(error, NotFoundError | FileNotFoundError):
        raise FileNotFoundError(path) from error
    raise StoreAway(path, first_line(error)) from error
