"""The reading of a backup: its content in parts, from the streams as they stood when it was asked for."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from functools import partial

from api.jetstream.backup_api import StreamSnapshot
from conf.limits import CONSUMER_RETRY_SECONDS, SNAPSHOT_STEP_BYTES, SNAPSHOT_STEP_MESSAGES
from delta_store.archive import s2_frames
from delta_store.archive.entries import CONSUMER_PREFIX, END, MAGIC, STATE_NAME, ArchiveEntry, encode
from delta_store.archive.message_entries import encode_run
from delta_store.dialect.json_writer import write_json
from delta_store.reading.past_streams import PastStream
from delta_store.reading.read_plan import ReadPlan
from delta_store.reading.read_threads import ReadsBusy
from delta_store.reading.removed_messages import read_removed
from delta_store.reading.settled import SettledTable
from delta_store.reading.store_reader import StoreReader
from delta_store.values.read_errors import DamagedData
from delta_store.values.stream_message import MessageRun, merged


class StreamGone(Exception):
    """The stream was deleted while it was read."""

    def __init__(self) -> None:
        super().__init__("the stream was deleted")


class SnapshotReads:
    """A reader of backups, as S2 frames. What limits remove meanwhile is read from the past."""

    def __init__(self, reader: StoreReader, settled: SettledTable) -> None:
        self._reader = reader
        self._settled = settled

    async def parts(self, work: StreamSnapshot) -> AsyncIterator[bytes]:
        """Iterate over a backup. Raises ``ReadError``, ``TimeoutError`` or :class:`StreamGone`."""
        state = write_json(work.state | {"consumer_count": len(work.consumers)} | work.increment)
        yield s2_frames.BEGIN + s2_frames.encode(MAGIC + encode(ArchiveEntry(STATE_NAME, work.now_ns, 0, b"", state)))
        for name, content in work.consumers:
            yield s2_frames.encode(encode(ArchiveEntry(CONSUMER_PREFIX + name, work.now_ns, 0, b"", content)))
        for seqs in _steps(work):
            plan = ReadPlan(work.stream, work.stream_id, seqs)
            run = await (self._read(plan) if work.past is None else self._read_then(work.past, seqs))
            yield await asyncio.to_thread(_frames, run)
        yield s2_frames.encode(encode(END))

    async def _read(self, plan: ReadPlan) -> MessageRun:
        near = self._reader.payloads.span_now(*plan)
        run = MessageRun.of(near) if len(near) == len(plan.seqs) else await self._read_tables(plan)
        state = self._reader.store.catalog.streams.get(plan.stream)
        if state is None or state.stream_id != plan.stream_id:
            raise StreamGone
        return run

    async def _read_then(self, past: PastStream, seqs: Sequence[int]) -> MessageRun:
        while True:
            with suppress(ReadsBusy):
                return MessageRun.of(await self._reader.read_then(past, seqs))
            await asyncio.sleep(CONSUMER_RETRY_SECONDS)

    async def _read_tables(self, plan: ReadPlan) -> MessageRun:
        while True:
            try:
                run, lost = await self._reader.read_run(plan)
                if lost:
                    raise DamagedData(f"stream {plan.stream}", f"message {lost} is in no file")
                return run if len(run) == len(plan.seqs) else merged([run, await self._removed(plan, run)])
            except ReadsBusy:
                await asyncio.sleep(CONSUMER_RETRY_SECONDS)

    async def _removed(self, plan: ReadPlan, run: MessageRun) -> MessageRun:
        missing = sorted(frozenset(plan.seqs).difference(run.seqs))
        return await asyncio.to_thread(partial(read_removed, self._settled, plan.stream, plan.stream_id, missing))


def _frames(run: MessageRun) -> bytes:
    return s2_frames.encode(encode_run(run))


def _steps(work: StreamSnapshot) -> Iterator[list[int]]:
    """Iterate over the sequences, as many as are read at a time."""
    most = max(1, min(SNAPSHOT_STEP_MESSAGES, SNAPSHOT_STEP_BYTES // max(1, work.mean_bytes)))
    spans = work.spans
    place, start = 0, 0
    while place < len(spans):
        seqs: list[int] = []
        while place < len(spans) and len(seqs) < most:
            first, last = (int(one) for one in spans[place])
            start = max(start, first)
            stop = min(last + 1, start + most - len(seqs))
            seqs += range(start, stop)
            start = stop
            place += stop > last
        yield seqs
