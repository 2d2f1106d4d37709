"""A data folder with so many unsettled messages that its opening takes seconds."""

from pathlib import Path

from delta_store.values.records import Kind, RowColumns
from tests.groups import columns, open_journal
from tests.tables import START_NS, History

_PER_COMMIT = 1_000


def large_store(data: Path, rows: int) -> None:
    """Write stream ``S`` of subjects ``s.>`` with ``rows`` unsettled messages, 1,000 a commit."""
    history = History()
    journal = open_journal(data / "journal")
    journal.commit(columns([history.create()]))
    for first in range(1, rows + 1, _PER_COMMIT):
        seqs = list(range(first, min(first + _PER_COMMIT, rows + 1)))
        count = len(seqs)
        journal.commit(
            RowColumns(
                stream=["S"] * count,
                stream_id=[history.stream_id] * count,
                seq=seqs,
                event_no=[history.event_no] * count,
                kind=[Kind.MESSAGE.value] * count,
                subject=[f"s.{seq}" for seq in seqs],
                ts_ns=[START_NS + seq for seq in seqs],
                msg_id=[f"id-{seq}" for seq in seqs],
                first_seq=[1] * count,
                evicts=[0] * count,
                headers=[b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % seq for seq in seqs],
                data=[b"payload %d" % seq for seq in seqs],
            )
        )
