"""The typed tables of all streams, beside ``messages``: taken along with each batch, caught up, cleaned, merged.

A table follows ``messages``: the files of a batch are committed after the batch itself. A table that is not where
``messages`` was before the batch (it is new, its schema has changed, a process ended between the two commits) gets
nothing of the batch and is caught up out of ``messages`` instead, by which it can always be made again. That is done a
little at a time, so nothing here holds up a stream: what fails is logged, and tried again later.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from conf.clock import Clock
from conf.error_text import error_text
from conf.limits import TYPED_RETRY_SECONDS, TYPED_ROUND_SECONDS, TYPED_STEP_SECONDS
from conf.log import log
from delta_store.beside.beside_table import read_state
from delta_store.beside.typed_table import STREAM, Standing, TypedTable, columns_of
from delta_store.entries.batch_report import BatchReport, Told
from delta_store.entries.settled_log import NO_TABLE
from delta_store.entries.typed_files import TypedFiles
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settling.stream_messages import messages_of, seqs_of
from delta_store.settling.typed_staging import TypedPlace, TypedTarget, TypedWriter, typed_storage
from delta_store.storage.open_storage import open_storage
from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.column_types import Record
from delta_store.typed.table_folders import DEAD_LETTERS, TABLES_FOLDER, table_folder
from delta_store.typed.typing_terms import TypingTerms, terms_in, widened
from delta_store.values.journal_errors import Fenced


@dataclass(slots=True)
class _Following:
    """A stream that has a typed table, or had one."""

    stream_id: int
    terms: TypingTerms | None
    table: TypedTable | None = None
    """None until it is opened."""
    verified: TypingTerms | None = None
    """The terms with which the table agrees."""
    catching_up: Iterator[None] | None = None
    unclean: bool = True
    """Whether rows may have left ``messages`` since the table was compared with it."""
    rest_until: float = 0.0
    """When it is tried again after a failure, by the monotonic clock."""

    def rests(self, clock: Clock) -> bool:
        """Whether it is left alone for now."""
        return clock.monotonic() < self.rest_until

    def closed(self) -> None:
        """Forget the table; what was staged is given up."""
        self.table = self.verified = self.catching_up = None


class TypedTables:
    """The tables as the owner of ``messages`` sees them. One thread at a time."""

    def __init__(self, owner: SettledOwner, place: TypedPlace, *, clock: Clock) -> None:
        self._owner, self._place = owner, place
        self._clock = clock
        self._streams: dict[str, _Following] = {}
        self._unknown: set[str] = set()
        """Streams whose schema can't be used here: their tables are left as they are."""
        self._targets: dict[str, TypedTarget] = {}
        """Those of the newest batch."""
        self._compared = NO_TABLE
        """The version of ``messages`` last looked at: after each batch, so that no file comes and goes unseen."""
        self._round_at = 0.0

    def learn(self, told: Iterable[Told]) -> None:
        """Apply the settings of STREAM rows, in their order."""
        for one in told:
            known = self._streams.get(one.stream)
            if not one.typing and known is None:
                continue
            try:
                terms = terms_in(one.typing)
            except BadSchema as error:  # the gateway takes no such schema: it is newer, or has more libraries
                log.warning("typed table not kept", stream=one.stream, error=str(error))
                self._unknown.add(one.stream)
                self._streams.pop(one.stream, None)
                continue
            self._unknown.discard(one.stream)
            if known is None:
                self._streams[one.stream] = _Following(one.stream_id, terms)
            elif (known.stream_id, known.terms) != (one.stream_id, terms):
                known.stream_id, known.terms, known.catching_up = one.stream_id, terms, None

    def place(self) -> TypedPlace:
        """Return the tables for which the next batch is written: those that stand where ``messages`` does."""
        self._targets = {
            name: TypedTarget(name, stream.stream_id, stream.verified, self._owner.epoch)
            for name, stream in self._streams.items()
            if self._is_level(name, stream) and stream.verified is not None
        }
        return self._place._replace(targets=tuple(self._targets.values()))

    def discard(self, report: BatchReport) -> None:
        """Delete staged files that will not be committed."""
        for files in report.typed:
            _discard(self._place, files)

    def settled(self, report: BatchReport) -> None:
        """Commit the files of a batch that was appended. Raises :class:`Fenced`."""
        for files in report.typed:
            name, target, stream = files.stream, self._targets[files.stream], self._streams.get(files.stream)
            if stream is None:
                _discard(self._place, files)
                continue
            last_seq, table = _last_seq(self._owner, name, stream), stream.table
            with self._guarded(name, stream):
                known = None if table is None or stream.terms is None else table.terms(stream.terms)
                if table is None or (stream.stream_id, known) != (target.stream_id, target.terms) or files.stale:
                    _discard(self._place, files)
                elif last_seq != table.mark:
                    table.take(files, target.stream_id, last_seq, target.terms, base=table.mark)
        self._targets = {}
        self._note_deleted()
        self._advance()

    def maintain(self) -> None:
        """Go on with tables that are behind; now and then clean and merge. Raises :class:`Fenced`."""
        self._advance()
        if self._clock.monotonic() >= self._round_at and self._streams:
            self._note_deleted()
            for name, stream in self._streams.items():
                if not stream.rests(self._clock):
                    with self._guarded(name, stream):
                        self._clean(name, stream)
            self._advance()
            self._round_at = self._clock.monotonic() + TYPED_ROUND_SECONDS

    def vacuum(self) -> None:
        """Delete what no version within the horizon needs. Raises :class:`Fenced`."""
        for name, stream in self._streams.items():
            if stream.catching_up is None and not stream.rests(self._clock):
                with self._guarded(name, stream):
                    self._opened(name, stream).vacuum(self._owner.horizons.of(name))
        self._find_others()

    def _find_others(self) -> None:
        """Find tables of streams that have none any more: they are emptied."""
        folders = {table_folder(name).rpartition("/")[2] for name in self._streams}
        tables = f"{self._place.data}/{TABLES_FOLDER}"
        there = {file.name.partition("/")[0] for file in open_storage(tables, self._place.options).walk()}
        for folder in there - folders:
            if not folder.endswith(DEAD_LETTERS):
                state = read_state(open_storage(f"{tables}/{folder}", self._place.options))
                name = state.properties.get(STREAM)
                if name is not None and name not in self._unknown:
                    self._streams[name] = _Following(0, None)

    def _is_level(self, name: str, stream: _Following) -> bool:
        if stream.rests(self._clock):
            return False
        with self._guarded(name, stream):
            if stream.terms is None:
                return False
            table, last_seq = self._opened(name, stream), _last_seq(self._owner, name, stream)
            terms = table.terms(stream.terms)
            if stream.verified != terms and table.standing(stream.stream_id, last_seq, terms) is Standing.LEVEL:
                stream.verified = terms
            return stream.verified == terms and table.mark == last_seq
        return False

    def finish(self) -> None:
        """Catch up to the end, however long it takes. Raises :class:`Fenced`."""
        while self._advance():
            pass

    def _advance(self) -> bool:
        """Catch up for a while; return whether more is to be done at once."""
        until = self._clock.monotonic() + TYPED_STEP_SECONDS
        for name, stream in self._streams.items():
            if stream.terms is None or stream.rests(self._clock) or self._is_level(name, stream):
                continue
            with self._guarded(name, stream):
                stream.catching_up = stream.catching_up or self._catching_up(name, stream, stream.terms)
                for _ in stream.catching_up:
                    if self._clock.monotonic() >= until:
                        return True
                stream.catching_up = None
        return False

    def _catching_up(self, name: str, stream: _Following, terms: TypingTerms) -> Iterator[None]:
        """Bring a table to where ``messages`` is now; yield after each part of the work."""
        table, last_seq = self._opened(name, stream), _last_seq(self._owner, name, stream)
        if terms.infers:
            anew = table.standing(stream.stream_id, last_seq, table.terms(terms)) is Standing.ANEW
            columns = Record(()) if anew else columns_of(table.rows.state)
            span = (0 if anew else table.mark, last_seq)
            for messages in messages_of(self._owner, name, stream.stream_id, span):
                columns = widened(columns, messages["data"].to_pylist())
                yield
            terms = terms.of_table(columns)
        anew = table.standing(stream.stream_id, last_seq, terms) is Standing.ANEW
        base = 0 if anew else table.mark
        target = TypedTarget(name, stream.stream_id, terms, self._owner.epoch)
        writer = TypedWriter(self._place, target)
        try:
            for messages in messages_of(self._owner, name, stream.stream_id, (base, last_seq)):
                writer.take(messages)
                yield
            files = writer.end()
        except BaseException:
            writer.discard()
            raise
        table.take(files, stream.stream_id, last_seq, terms, base=base)
        stream.verified = terms
        log.info("typed table caught up", stream=name, seq=last_seq, anew=anew)

    def _note_deleted(self) -> None:
        """Note whose rows may have left ``messages`` since the last time."""
        before, now = self._compared, self._owner.snapshot if self._streams else NO_TABLE
        gone = {before.files[path].stream for path in before.files.keys() - now.files.keys()}
        for name in gone & self._streams.keys():
            self._streams[name].unclean = True  # type: ignore[index]
        self._compared = now

    def _clean(self, name: str, stream: _Following) -> None:
        """Take out what has left ``messages``, merge small files, write checkpoints."""
        table = self._opened(name, stream)
        if table.rows.state.version < 0:
            return
        if stream.terms is None:
            table.empty()
        elif stream.unclean and stream.catching_up is None and self._is_level(name, stream):
            if table.keep_only(seqs_of(self._owner, name, stream.stream_id)) and stream.terms.latest:
                stream.verified = None
                table.forget()
            stream.unclean = False
        table.upkeep()

    def _opened(self, name: str, stream: _Following) -> TypedTable:
        if stream.table is None:
            owner = self._owner
            table = TypedTable(name, epoch=owner.epoch, clock=self._clock, horizon_seconds=owner.horizons.of(name))
            rows, dead = (typed_storage(self._place, name, dead_letters=it) for it in (False, True))
            table.open(rows, dead, stream.stream_id, stream.terms)
            stream.table, stream.verified = table, None
        return stream.table

    @contextmanager
    def _guarded(self, name: str, stream: _Following) -> Iterator[None]:
        """Leave a stream alone for a while after a failure."""
        try:
            yield
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, messages has the rows
            stream.closed()
            stream.rest_until = self._clock.monotonic() + TYPED_RETRY_SECONDS
            log.warning("typed table left behind", stream=name, error=error_text(error).partition("\n")[0])


def _last_seq(owner: SettledOwner, name: str, stream: _Following) -> int:
    """Return how far ``messages`` has the stream."""
    mark = owner.note.watermarks.get(name)
    return mark.seq if mark is not None and mark.stream_id == stream.stream_id else 0


def _discard(place: TypedPlace, files: TypedFiles) -> None:
    """Delete staged files that will not be committed."""
    for dead_letters, some in ((False, files.rows), (True, files.rejected)):
        typed_storage(place, files.stream, dead_letters=dead_letters).delete(file.path for file in some)
