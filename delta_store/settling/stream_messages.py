"""The messages of one stream in ``messages``, read by the settle job without Spark, a part at a time."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_store.entries.settled_log import Int64s
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.typed.typed_rows import MESSAGE_COLUMNS
from delta_store.values.records import Kind

_BATCH_ROWS: Final = 16 * 1024


def messages_of(owner: SettledOwner, stream: str, stream_id: int, between: tuple[int, int]) -> Iterator[pa.Table]:
    """Iterate over the messages behind the first sequence up to the second, with ``MESSAGE_COLUMNS``, in no order."""
    after, last = between
    for rows in _read(owner, stream, stream_id, (*MESSAGE_COLUMNS, "kind", "stream_id"), between):
        wanted = pc.and_(pc.greater(rows["seq"], after), pc.less_equal(rows["seq"], last))
        yield rows.filter(wanted).select(MESSAGE_COLUMNS)


def seqs_of(owner: SettledOwner, stream: str, stream_id: int) -> Int64s:
    """Return the sequences of all messages, in no order."""
    parts = _read(owner, stream, stream_id, ("seq", "kind", "stream_id"), (0, 1 << 62))
    return np.concatenate([np.empty(0, dtype=np.int64), *(rows["seq"].to_numpy() for rows in parts)])


def _read(
    owner: SettledOwner, stream: str, stream_id: int, columns: tuple[str, ...], between: tuple[int, int]
) -> Iterator[pa.Table]:
    filesystem, root = filesystem_of(owner.storage.uri, owner.storage.options)
    for file in owner.snapshot.of_stream(stream):
        if not file.has_messages or file.seq[1] <= between[0] or file.seq[0] > between[1]:
            continue
        with filesystem.open_input_file(f"{root}/{file.path}") as source:
            parquet = pq.ParquetFile(source, page_checksum_verification=True)
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(columns)):
                rows = pa.table(batch)
                mine = pc.and_(pc.equal(rows["kind"], Kind.MESSAGE.value), pc.equal(rows["stream_id"], stream_id))
                yield rows.filter(mine)
