"""Who copies from whom, what copies have yet to take, and which stream answers Direct Get for a name."""

import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ExternalStream, StreamSource
from delta_store.streams.catalog import Catalog
from delta_store.streams.copies_here import direct_server, local_copies
from delta_store.streams.copy_links import Want
from delta_store.streams.stream_sources import Selection, SourcePosition, identity
from delta_store.streams.stream_state import NewMessage
from delta_store.values.records import RowColumns


def catalog_of(*configs: StreamConfig, domain: str = "") -> Catalog:
    """A catalog with these streams."""
    catalog = Catalog(domain=domain)
    for number, config in enumerate(configs, 1):
        catalog.create(config, now_ns=number, rows=RowColumns())
    return catalog


def store(catalog: Catalog, name: str, messages: int) -> None:
    """Store messages of one subject."""
    state = catalog.streams[name]
    for _ in range(messages):
        state.store(NewMessage("o", state.index.table.intern("o"), None, b"", None), now_ns=1, rows=RowColumns())


def answering(catalog: Catalog, name: str) -> str:
    """The name of the stream that answers for a name, empty for none."""
    found = direct_server(catalog, name)
    return found.name if found is not None else ""


MIRROR = StreamConfig("M", mirror=StreamSource("O"), mirror_direct=True)


def test_an_origin_that_answers_answers_itself() -> None:
    """A mirror stands in for its origin only where that does not answer, and never without mirror_direct."""
    catalog = catalog_of(StreamConfig("O", ("o",), allow_direct=True), MIRROR)
    store(catalog, "O", 3)
    store(catalog, "M", 3)
    assert answering(catalog, "O") == "O"
    catalog.update(StreamConfig("O", ("o",)), now_ns=5, rows=RowColumns())
    assert answering(catalog, "O") == "M"
    assert answering(catalog, "M") == ""
    catalog.delete("O", now_ns=6, rows=RowColumns())
    assert answering(catalog, "O") == "M"
    catalog.update(StreamConfig("M", mirror=StreamSource("O")), now_ns=7, rows=RowColumns())
    assert answering(catalog, "O") == ""
    catalog.update(MIRROR, now_ns=8, rows=RowColumns())
    assert answering(catalog, "O") == "M"
    catalog.update(StreamConfig("M", ("m",), mirror_direct=True), now_ns=9, rows=RowColumns())
    assert answering(catalog, "O") == ""


@pytest.mark.parametrize(("copied", "answers"), [(0, False), (1, False), (90, False), (91, True), (100, True)])
def test_a_mirror_answers_once_it_has_caught_up(copied: int, answers: bool) -> None:
    """With ten messages or more to go it does not; later it answers even if it falls behind again."""
    catalog = catalog_of(StreamConfig("O", ("o",)), MIRROR)
    store(catalog, "O", 100)
    store(catalog, "M", copied)
    assert (answering(catalog, "O") == "M") is answers
    store(catalog, "O", 100)
    assert (answering(catalog, "O") == "M") is answers


def test_an_empty_mirror_does_not_answer() -> None:
    """Not even for an empty origin: nats-server's begins with its first message."""
    catalog = catalog_of(StreamConfig("O", ("o",)), MIRROR)
    assert answering(catalog, "O") == ""


def test_mirrors_of_other_domains_do_not_answer() -> None:
    """A stream of the same name elsewhere is another stream."""
    there = StreamSource("O", external=ExternalStream("$JS.there.API"))
    here = StreamSource("O", external=ExternalStream("$JS.here.API"))
    catalog = catalog_of(
        StreamConfig("T", mirror=there, mirror_direct=True),
        StreamConfig("H", mirror=here, mirror_direct=True),
        domain="here",
    )
    store(catalog, "T", 1)
    assert answering(catalog, "O") == ""
    store(catalog, "H", 1)
    assert answering(catalog, "O") == "H"
    assert [link.target.name for link in local_copies(catalog, "O")] == ["H"]


def test_where_a_source_goes_on() -> None:
    """Behind its position, or from the start when that is of another stream of the name."""
    source = StreamSource("O", filter_subject="a")
    catalog = catalog_of(StreamConfig("O", ("o",)), StreamConfig("S", sources=(source,)))
    origin, target = catalog.streams["O"], catalog.streams["S"]
    (link,) = local_copies(catalog, "O")
    assert link.next_seq(origin) == 1
    target.sources["O a >"] = SourcePosition(7, identity("O", origin.stream_id))
    assert link.next_seq(origin) == 8
    target.sources["O a >"] = SourcePosition(7, identity("O", origin.stream_id + 1))
    assert link.next_seq(origin) == 1


def test_what_a_copy_has_yet_to_take() -> None:
    """Messages of its subjects, behind its position."""
    part, whole = Selection(StreamSource("O", filter_subject="o.a")), Selection(StreamSource("O"))
    assert Want(part, 3).needs(3, "o.a")
    assert not Want(part, 3).needs(2, "o.a")
    assert not Want(part, 3).needs(3, "o.b")
    assert Want(whole, 3).needs(9, "o.b")
