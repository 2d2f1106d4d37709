"""``$JS.API.INFO``: what the account uses and may use."""

from api.api_call import ApiCall, Result
from api.responses import account_stats


def info(call: ApiCall) -> Result:
    """Usage, limits and the API's counters before this request."""
    call.catalog.expire(now_ns=call.now_ns, rows=call.rows)
    consumers = sum(map(call.consumer_count, call.catalog.streams))
    return account_stats(call.catalog, call.account, consumers=consumers)
