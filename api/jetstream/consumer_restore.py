"""``CONSUMER.RESTORE``, Silt's own: a consumer put where another server had it, as its backup tells."""

from api.jetstream.api_call import ApiCall, Result
from api.jetstream.archived_consumer import read_archived
from api.jetstream.consumer_info import consumer_info
from consumers.config.consumer_create_rules import Company
from consumers.engine.consumer_rows import config_data
from delta_store.archive.archived import ArchivedConsumer
from delta_store.archive.bad_archive import BadArchive
from delta_store.config import api_errors
from delta_store.values.records import Kind


def restore(call: ApiCall) -> Result:
    """Create a consumer with the position in the body, or put it in the place of the one with its name.

    The body is what stands in a backup: ``config`` and ``state`` (delivered, ack_floor, pending, redelivered).
    """
    call.require_body()
    state, name = call.stream(), call.names[1]
    home = call.directory.home_of(state)
    company = Company()
    for other in home.by_name.values():
        if other.name != name:
            company.join(other.config, state.config)
    try:
        config, progress = read_archived(ArchivedConsumer(name, call.payload), state.config, company)
    except BadArchive as bad:
        raise api_errors.restore_failed(str(bad)) from None
    call.catalog.require_change()
    newest = call.directory.newest(state.name)
    created_ns = max(call.now_ns, newest.created_ns + 1) if newest is not None else call.now_ns
    for kind, data in (
        (Kind.CONSUMER, config_data(config, created_ns=created_ns)),
        (Kind.CONSUMER_STATE, progress.encode()),
    ):
        state.record_consumer(kind, name=name, data=data, now_ns=call.now_ns, rows=call.rows)
    call.registry.adopt(state, anew=name, now_ns=call.now_ns, rows=call.rows)
    put = call.directory.get(state.name, name)
    assert put is not None
    return consumer_info(put, now_ns=call.now_ns)
