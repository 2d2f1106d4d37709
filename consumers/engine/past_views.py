"""The past states that consumers read: shared by those of one place, read later, ended with their horizon. Pure."""

from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.effect_desk import EffectDesk
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.past_view import PastPlace, PastView
from delta_store.index.stream_index import StreamIndex
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns


class PastViews:
    """The views of all consumers of a directory."""

    def __init__(self, directory: ConsumerDirectory, desk: EffectDesk) -> None:
        self._directory = directory
        self._desk = desk

    def held(self) -> list[PastView]:
        """Return all views that consumers have, each once."""
        found = {consumer.past: None for consumer in self._directory.of_past if consumer.past is not None}
        return list(found)

    def at(self, state: StreamState, place: PastPlace) -> PastView:
        """Return the view of a stream at a place: that which consumers have, or a new one, to be opened or left."""
        alike = (view for view in self.held() if view.stream_id == state.stream_id and view.place == place)
        return next(alike, None) or PastView(state.name, state.stream_id, place, state.on_erased)

    def readers(self, view: PastView) -> list[ConsumerMachine]:
        """Return the consumers of a view."""
        return [consumer for consumer in self._directory.of_past if consumer.past is view]

    def open(self, view: PastView, index: StreamIndex, *, now_ns: int) -> None:
        """Begin to deliver from a view, whose messages have been read."""
        view.open(index)
        for consumer in self.readers(view):
            consumer.progress.look_again()
            self._desk.after(consumer, consumer.stored(now_ns))

    def end(self, view: PastView, *, now_ns: int, rows: RowColumns) -> list[str]:
        """Delete the consumers of a view that can't be read any more; return their names.

        Their pulls get a status, and an advisory tells of each, as of any deletion.
        """
        ended = self.readers(view)
        for consumer in ended:
            self._desk.delete(consumer, now_ns=now_ns, rows=rows)
        return [consumer.name for consumer in ended]
