"""A process that commits groups to a journal until a crash test kills it.

    python -m tests.journal_writer FOLDER ROWS_PER_GROUP [COMMITS]

It continues after the last sequence of the journal and writes ``ack <seq>`` to standard output for each durable group,
in one write each, so that the output is what was acknowledged; an error of the journal ends it with ``stop <kind>``.
"""

import os
import sys
from pathlib import Path

from conf.clock import SystemClock
from delta_store.journal.journal import Journal
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.journal_errors import JournalError
from tests.groups import SHARD, group, live_rows


def main() -> None:
    """Run the process, see the module's docstring."""
    folder, rows, commits = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 62
    try:
        journal = Journal.open(LocalStorage(folder), shard=SHARD, clock=SystemClock())
        journal.claim()
        last = 0
        for _, held in live_rows(journal.reader):
            last = held.seq[-1]
        os.write(1, b"ready\n")
        for number in range(commits):
            if number % 8 == 7:
                journal.checkpoint()
            journal.commit(group(last + 1, rows))
            last += rows
            os.write(1, b"ack %d\n" % last)
    except JournalError as error:
        os.write(1, f"stop {error.kind.value} {error}\n".encode())
        sys.exit(3)


if __name__ == "__main__":
    main()
