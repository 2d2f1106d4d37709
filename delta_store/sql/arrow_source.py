"""Settled files for DuckDB where it can't open them itself: in an object store, or named with a pattern's character.

DuckDB's own readers of object stores are extensions, which are shut. Arrow's dataset takes DuckDB's projections and
filters, and reads through :mod:`delta_store.storage.arrow_filesystem`, so all settings of the store apply.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from delta_store.storage.arrow_filesystem import FileOpener
from delta_store.values.read_errors import FileGone
from delta_store.values.schemas import MESSAGES_PARTITION_COLUMNS, MESSAGES_SCHEMA

_SCHEMA: Final = pa.schema([field for field in MESSAGES_SCHEMA if field.name not in MESSAGES_PARTITION_COLUMNS])


def dataset_of(filesystem: FileOpener, paths: Sequence[str]) -> Any:
    """Return the files as an Arrow dataset, opened here. Raises ``FileGone`` or ``StoreAway``."""
    import pyarrow.dataset as ds  # takes as long as all the rest where pandas is installed

    form = ds.ParquetFileFormat()
    fragments = []
    for path in paths:
        try:
            fragments.append(form.make_fragment(filesystem.open_input_file(path)))
        except FileNotFoundError as error:
            raise FileGone(path) from error
    return ds.FileSystemDataset(fragments, _SCHEMA, form)
