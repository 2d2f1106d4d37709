"""``$JS.API.INFO``: usage and limits of the account; ``$JS.API.SETTLING``: the state of the settle job."""

from api.jetstream.api_call import ApiCall, Result
from api.jetstream.responses import account_stats


def info(call: ApiCall) -> Result:
    """Return usage, limits and the API's counters before this request."""
    call.catalog.expire(now_ns=call.now_ns, rows=call.rows)
    consumers = sum(map(call.consumer_count, call.catalog.streams))
    return account_stats(call.catalog, call.account, consumers=consumers)


def settling(call: ApiCall) -> Result:
    """Return the state of the settle job and its lag; an endpoint of Silt's own."""
    return dict(call.account.settling())
