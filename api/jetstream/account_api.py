"""``$JS.API.INFO``: what the account uses and may use; ``$JS.API.SETTLING``: how settling is."""

from api.jetstream.api_call import ApiCall, Result
from api.jetstream.responses import account_stats


def info(call: ApiCall) -> Result:
    """Usage, limits and the API's counters before this request."""
    call.catalog.expire(now_ns=call.now_ns, rows=call.rows)
    consumers = sum(map(call.consumer_count, call.catalog.streams))
    return account_stats(call.catalog, call.account, consumers=consumers)


def settling(call: ApiCall) -> Result:
    """State of the settle job and how far it is behind; an endpoint of ours that nats-server does not have."""
    return dict(call.account.settling())
