"""How fast publishes are decided, on one core: ``python tests/benchmarks/bench_decide.py``.

Prints messages a second for runs as the leaf link hands them over, the journal and the network left out.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable

from delta_store.config.stream_config import StreamConfig
from delta_store.streams.catalog import Catalog
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide

Make = Callable[[int], WireMessage]
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def rate(config: StreamConfig, make: Make, *, run: int, total: int) -> float:
    """Messages a second of CPU time: the best of three passes over fresh streams."""
    best = 0.0
    messages = [make(number) for number in range(total)]
    for _ in range(3):
        catalog, group = Catalog(), Group()
        catalog.create(config, now_ns=START, rows=group.rows)
        started = time.process_time()
        for place in range(0, total, run):
            group = Group()
            decide(catalog, messages[place : place + run], START + place * 1000, group)
        best = max(best, total / (time.process_time() - started))
    return best


def cases(keys: int) -> dict[str, tuple[StreamConfig, Make]]:
    """What is measured: name → stream and messages."""
    payload, seeded = b"x" * 128, random.Random(1)
    order = [seeded.randrange(keys) for _ in range(1_000_003)]

    def plain(number: int) -> WireMessage:
        return WireMessage(b"s.%d" % (number % 8), b"_INBOX.abcdefgh.%d" % number, b"", payload)

    def with_id(number: int) -> WireMessage:
        return plain(number)._replace(header=b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % number)

    def expecting(number: int) -> WireMessage:
        return plain(number)._replace(header=b"NATS/1.0\r\nNats-Expected-Last-Sequence: %d\r\n\r\n" % number)

    def key_value(number: int) -> WireMessage:
        return plain(number)._replace(subject=b"s.key.%d" % order[number % len(order)])

    one = StreamConfig("S", ("s.>",))
    return {
        "plain": (one, plain),
        "with Nats-Msg-Id": (one, with_id),
        "with an expected sequence": (one, expecting),
        f"{keys} keys": (one, key_value),
        f"{keys} keys, one value each": (StreamConfig("S", ("s.>",), max_msgs_per_subject=1, discard="new"), key_value),
        f"{keys} keys, five values each": (StreamConfig("S", ("s.>",), max_msgs_per_subject=5), key_value),
        "max_msgs reached": (StreamConfig("S", ("s.>",), max_msgs=10_000), plain),
        "max_bytes reached": (StreamConfig("S", ("s.>",), max_bytes=1_000_000), plain),
        "values and max_bytes reached": (
            StreamConfig("S", ("s.>",), max_bytes=1_000_000, max_msgs_per_subject=1), key_value,
        ),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 16, 500, 2000])
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    for name, (config, make) in cases(chosen.keys).items():
        if chosen.only not in name:
            continue
        for run in chosen.runs:
            total = chosen.total if run > 100 else min(chosen.total, 20_000)
            found = rate(config, make, run=run, total=total)
            sys.stdout.write(f"{name:32} runs of {run:5}: {found:12,.0f} msg/s\n")


if __name__ == "__main__":
    main()
