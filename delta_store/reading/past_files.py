"""The files of a stream that are there for past versions alone: what its history costs."""

from delta_store.entries.staged_file import stream_folder
from delta_store.reading.settled import SettledTable
from delta_store.storage.storage import Stored


def past_files(settled: SettledTable, stream: str) -> list[Stored]:
    """Return the settled files of a stream that the newest version has not. Lists the table's folder.

    Such that a settle job is writing just now may be among them.
    """
    folder = stream_folder(stream) + "/"
    there = [file for file in settled.log.stored() if file.name.startswith(folder) and file.name.endswith(".parquet")]
    live = settled.refresh().files
    return [file for file in there if file.name not in live]
