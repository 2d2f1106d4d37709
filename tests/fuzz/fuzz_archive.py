"""An atheris target for backups: ``python tests/fuzz/fuzz_archive.py [corpus folder] [-runs=100000]``.

For any bytes and any cut, in frames and inside them, of both kinds of archives: the checker gives items or its own
error, the same whole or in pieces; what comes out is in order and within its bounds.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import atheris
except ImportError:
    sys.stderr.write("skipped: atheris is not installed (pip install atheris; it has wheels for CPython on Linux)\n")
    raise SystemExit(0) from None

with atheris.instrument_imports(include=["delta_store"]):
    from delta_store.archive import s2_frames
    from delta_store.archive.archive_checker import ArchiveChecker
    from delta_store.archive.bad_archive import BadArchive
    from delta_store.archive.entries import END, MAGIC, ArchiveEntry, encode
    from delta_store.archive.entry_run import EntryRun

from tests import old_backups
from tests.old_backups import DELETED, ERASED, Record

BYTES_MAX, SEQUENCE_MAX = 500, 1 << 40
RECORDS = [Record(seq, 1 << 60, "s.a", b"", b"data") for seq in range(1, 9)]
BLOCK = old_backups.block([*RECORDS, Record(9, 1, mark=ERASED), Record(3, 1, mark=DELETED)])
CONSUMER = ("c", {"durable_name": "c"}, old_backups.consumer_state((0, 0), (2, 2), {2: (2, 1)}))
TAR = old_backups.tar(
    old_backups.files("S", [BLOCK], old_backups.state(6, 1, 9, [4], last_hash=BLOCK[-8:]), [CONSUMER])
)
STATE = b'{"first_seq":1,"last_seq":8,"messages":8,"consumer_count":0}'
ENTRIES = b"".join(
    (
        MAGIC,
        encode(ArchiveEntry("state.json", 1, 0, b"", STATE)),
        *(encode(ArchiveEntry("s.a", 1 << 60, seq, b"", bytes(40))) for seq in range(1, 9)),
        encode(END),
    )
)


def read(parts: list[bytes]) -> tuple[list[object], bool]:
    """What an archive that comes in these parts gives, as columns, and whether an error ended it."""
    checker = ArchiveChecker("S", message_bytes_max=BYTES_MAX, sequence_max=SEQUENCE_MAX, valid_subject=str.isascii)
    subjects: list[str] = []
    seqs: list[int] = []
    failed = False
    try:
        for part in parts:
            for item in checker.feed(part):
                if isinstance(item, EntryRun):
                    subjects += item.subjects
                    seqs += item.seqs.tolist()
                    assert max(item.sizes) <= BYTES_MAX
    except BadArchive:
        failed = True
    assert seqs == sorted(set(seqs))
    assert not seqs or seqs[-1] <= SEQUENCE_MAX
    return [subjects, seqs, checker.ended], failed


def one_input(data: bytes) -> None:
    """Called by atheris for each input: some bytes of a good archive are changed, then it is framed and cut."""
    provider = atheris.FuzzedDataProvider(data)
    content = bytearray(provider.PickValueInList([TAR, ENTRIES]))
    for _ in range(provider.ConsumeIntInRange(0, 6)):
        at = provider.ConsumeIntInRange(0, len(content) - 1)
        inserted = provider.ConsumeBytes(provider.ConsumeIntInRange(0, 8))
        content[at : at + len(inserted)] = inserted
    whole = s2_frames.BEGIN + s2_frames.encode(bytes(content))
    if provider.ConsumeBool():
        whole = provider.ConsumeBytes(provider.remaining_bytes())
    step = 1 + len(data) % 97
    found, failed = read([whole])
    pieces, failed_in_pieces = read([whole[at : at + step] for at in range(0, len(whole), step)])
    assert failed == failed_in_pieces
    assert failed or pieces == found


def main() -> None:
    """Fuzz until a failure or until the given number of runs."""
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
