"""A table in an object store: durability is its promise, put-if-absent is probed before it is trusted."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from threading import Barrier
from typing import TYPE_CHECKING, Final

from delta_store.storage.object_store import first_line
from delta_store.storage.storage import Blob, Stored
from delta_store.values.journal_errors import EntryExists, NotStored, StorageFailed, UnsafeStore
from delta_store.values.schemas import LOG_FOLDER

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PROBE_ROUNDS: Final = 4
_PROBE_SECONDS: Final = 10


class ObjectStorage:
    """An object store that honours conditional puts."""

    repeatable = True
    has_room = True

    def __init__(self, store: "ObjectStore", *, uri: str, options: Mapping[str, str]) -> None:
        """``store`` is rooted at the table's folder, which ``uri`` and ``options`` name for delta-rs."""
        self._store = store
        self.uri, self.options = uri, options

    def prepare(self, probe_id: str) -> None:
        """Race conditional puts on a few objects; raise :class:`UnsafeStore` unless exactly one of each wins."""
        for number in range(_PROBE_ROUNDS):
            blob = Blob(f"_probe/{probe_id}-{number}", b"probe")
            create = partial(self._create, blob)
            outcomes = race([create, create])
            outcomes.append(create())
            self.delete([blob.name])
            if sum(outcomes) != 1:
                won = f"{sum(outcomes)} of 3 conditional puts of one object won"
                raise UnsafeStore(self.uri, f"{won}: the store does not honour conditions, and two could both commit")

    def set_aside(self) -> None:
        """Do nothing: a store has no end."""

    def publish(self, entry: Blob, data: Blob | None = None) -> None:
        """Put the data under its unique name, then the entry conditionally."""
        if data is not None:
            self._put(data, published=False)
        if not self._create(entry):
            raise EntryExists(entry.name, "there already")

    def write(self, blob: Blob) -> None:
        """Put the object."""
        self._put(blob, published=False)

    def write_behind(self, source: str, more: Blob) -> None:
        """Get the object and put it with more: what stores can put together themselves differs from one to the next."""
        self._put(Blob(more.name, self.read(source), (bytes(more.whole),)), published=False)

    def read(self, name: str) -> bytes:
        """Get the object."""
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            return bytes(obstore.get(self._store, name).bytes())
        except (NotFoundError, FileNotFoundError) as error:
            raise NotStored(name, "not found") from error
        except (BaseError, OSError) as error:
            raise StorageFailed(name, first_line(error)) from error

    def exists(self, name: str) -> bool:
        """Send a HEAD request."""
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            obstore.head(self._store, name)
        except (NotFoundError, FileNotFoundError):
            return False
        except (BaseError, OSError) as error:
            raise StorageFailed(name, first_line(error)) from error
        return True

    def sizes(self, folder: str) -> dict[str, int]:
        """List the folder, without the empty object that some stores keep in its name."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            listed = obstore.list_with_delimiter(self._store, folder or None)
        except (BaseError, OSError) as error:
            raise StorageFailed(folder, first_line(error)) from error
        return {item["path"].rpartition("/")[2]: item["size"] for item in listed["objects"] if item["path"] != folder}

    def walk(self) -> Iterator[Stored]:
        """List everything, page by page."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            for page in obstore.list(self._store):
                for item in page:
                    if not item["path"].startswith(f"{LOG_FOLDER}/"):
                        yield Stored(item["path"], item["size"], int(item["last_modified"].timestamp() * 1000))
        except (BaseError, OSError) as error:
            raise StorageFailed("", first_line(error)) from error

    def delete(self, names: Iterable[str]) -> None:
        """Send one request for each file of the log, and bulk requests, which have no order, for others in a row."""
        for is_log, group in groupby(names, lambda name: name.startswith(f"{LOG_FOLDER}/")):
            together = list(group)
            if is_log or not self._delete(together):
                for name in together:
                    self._delete([name])

    def _delete(self, names: Sequence[str]) -> bool:
        """Delete files in any order; False when one was not there: others may be left then."""
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            obstore.delete(self._store, names)
        except (NotFoundError, FileNotFoundError):
            return False
        except (BaseError, OSError) as error:
            raise StorageFailed(names[0], first_line(error)) from error
        return True

    def _put(self, blob: Blob, *, published: bool | None) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.put(self._store, blob.name, memoryview(blob.whole).cast("B"))
        except (BaseError, OSError) as error:
            raise StorageFailed(blob.name, first_line(error), published=published, retryable=True) from error

    def _create(self, blob: Blob) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            obstore.put(self._store, blob.name, memoryview(blob.whole).cast("B"), mode="create", use_multipart=False)
        except (AlreadyExistsError, FileExistsError, PreconditionError):
            return False
        except (BaseError, OSError) as error:
            raise StorageFailed(blob.name, first_line(error), published=None) from error
        return True


def race(attempts: Sequence[Callable[[], bool]]) -> list[bool]:
    """Start all attempts at once, one thread each, and return their outcomes; raise what one of them raised."""
    start = Barrier(len(attempts))

    def run(attempt: Callable[[], bool]) -> bool:
        start.wait(timeout=_PROBE_SECONDS)
        return attempt()

    with ThreadPoolExecutor(len(attempts)) as threads:
        return list(threads.map(run, attempts))
