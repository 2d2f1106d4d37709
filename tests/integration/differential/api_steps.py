"""A session of API requests and publishes that is played to nats-server and to Silt."""

from typing import NamedTuple


class Ask(NamedTuple):
    """An API request; ``endpoint`` is the subject behind ``$JS.API.``."""

    endpoint: str
    body: str = ""
    level: str | None = None
    """Value of ``Nats-Required-Api-Level``."""


class Publish(NamedTuple):
    """A message for the stream that takes its subject."""

    subject: str
    data: bytes = b""
    headers: dict[str, str] | None = None


def asks(endpoint: str, *bodies: str) -> list[Ask]:
    """One endpoint with several bodies."""
    return [Ask(endpoint, body) for body in bodies]


MESSAGES = [Publish(f"s.{number % 3}", b"d%d" % number, {"H": "v"} if number % 2 else None) for number in range(9)]

MSG_GET = (
    "", "{}", "null", "x", "[]", '{"x":1}', '{"seq":"x"}', '{"seq":-1}', '{"seq":0}', '{"seq":1}', '{"seq":2}',
    '{"seq":2,"no_hdr":true}', '{"seq":3}', '{"seq":10}', '{"seq":99}', '{"last_by_subj":"s.1"}',
    '{"last_by_subj":"s.*"}',
    '{"last_by_subj":">"}', '{"last_by_subj":"zz"}', '{"next_by_subj":"s.1"}', '{"next_by_subj":"s.1","seq":3}',
    '{"next_by_subj":"s.*","seq":3}', '{"next_by_subj":"s.1","seq":99}', '{"next_by_subj":""}', '{"next_by_subj":"zz"}',
    '{"seq":1,"last_by_subj":"x"}', '{"last_by_subj":"s.1","next_by_subj":"s.1"}', '{"batch":1,"seq":1}',
    '{"batch":-1,"seq":1}', '{"max_bytes":1,"seq":1}', '{"start_time":"2020-01-01T00:00:00Z"}',
    '{"start_time":"2099-01-01T00:00:00Z"}', '{"start_time":"2020-01-01T00:00:00+02:00","next_by_subj":"s.2"}',
    '{"start_time":"2020-01-01T00:00:00Z","seq":1}', '{"start_time":"2020-01-01T00:00:00Z","last_by_subj":"s.1"}',
    '{"start_time":"2020-01-01"}', '{"start_time":""}', '{"start_time":null,"seq":1}', '{"start_time":{}}',
    '{"multi_last":["s.1"]}', '{"multi_last":"s.1"}', '{"seq":1,"multi_last":["s.1"]}', '{"up_to_seq":5}',
    '{"up_to_time":"2020-01-01T00:00:00Z","seq":1}',
)  # fmt: skip

ODD_FILTERS = ("s.>.0", "s..0", ".", "s.", ">.0", "s.* ", "s.*.>", "s.0*", "s.0 ", "s.>0", "*", "*.*", ">")

SESSION: list[Ask | Publish] = [
    Ask("INFO"),
    Ask("INFO", "anything"),
    Ask("INFO", level="5"),
    Ask("INFO", level="6"),
    Ask("INFO", level="x"),
    Ask("INFO", level="-1"),
    Ask("STREAM.LIST"),
    Ask("STREAM.CREATE.S", level="99"),
    Ask("STREAM.CREATE.S", '{"name":"S","subjects":["s.>"],"description":"a<b>&\u2028","metadata":{"k":"v"}}'),
    *asks("STREAM.INFO.S", "", "x", '{"offset":"x"}', '{"subjects_filter":">"}'),
    *asks("STREAM.INFO.NONE", "", '{"offset":"x"}'),
    *MESSAGES,
    Publish("s.e"),
    *asks(
        "STREAM.INFO.S", "", '{"subjects_filter":">"}', '{"subjects_filter":"s.1","deleted_details":true}',
        '{"subjects_filter":">","offset":2}', '{"subjects_filter":">","offset":20}',
        '{"subjects_filter":">","offset":-1}',
        '{"subjects_filter":"zz"}', '{"offset":5}', '{"deleted_details":true}', '{"x":1}', "[1]",
    ),
    *asks("STREAM.MSG.GET.S", *MSG_GET),
    *(Ask("STREAM.INFO.S", f'{{"subjects_filter":"{wanted}"}}') for wanted in ODD_FILTERS),
    *(Ask("STREAM.PURGE.S", f'{{"filter":"{wanted}","keep":9}}') for wanted in ODD_FILTERS),
    *(Ask("STREAM.MSG.GET.S", f'{{"last_by_subj":"{wanted}"}}') for wanted in ODD_FILTERS),
    *(Ask("STREAM.MSG.GET.S", f'{{"next_by_subj":"{wanted}"}}') for wanted in ODD_FILTERS),
    *asks("STREAM.MSG.GET.S", '{"seq":18446744073709551615}', '{"next_by_subj":"s.*","seq":18446744073709551615}'),
    *asks("STREAM.MSG.DELETE.S", '{"seq":18446744073709551615}'),
    *asks("STREAM.PURGE.S", '{"keep":18446744073709551615}', '{"keep":18446744073709551615,"filter":"s.1"}'),
    *asks("STREAM.MSG.GET.NONE", "", '{"seq":1}', '{"batch":1}'),
    *asks("STREAM.MSG.DELETE.S", "", "{}", "3", '{"x":1}', '{"seq":0}', '{"seq":99}', '{"seq":3,"no_erase":true}',
          '{"seq":3}', '{"seq":1}', '{"seq":1}', '{"seq":10}', '{"seq":10}'),
    *asks("STREAM.MSG.DELETE.NONE", "", '{"seq":1}'),
    *asks("STREAM.INFO.S", "", '{"deleted_details":true}'),
    Publish("s.1", b"after"),
    *asks("STREAM.INFO.S", '{"deleted_details":true,"subjects_filter":"s.*"}'),
    *asks("STREAM.MSG.GET.S", '{"seq":3}', '{"next_by_subj":"s.2"}', '{"next_by_subj":"s.0","seq":1}', '{"seq":11}'),
    *asks("STREAM.PURGE.S", '{"seq":3,"keep":1}', '{"x":1}', '{"seq":"x"}', '{"seq":1}', '{"filter":"nope"}',
          '{"filter":"s.1","keep":1}', '{"filter":"s.0","seq":5}', '{"seq":6}', '{"keep":100}', '{"keep":2}'),
    *asks("STREAM.INFO.S", '{"deleted_details":true}'),
    *asks("STREAM.PURGE.S", "anything"),
    Ask("STREAM.PURGE.NONE"),
    *asks("STREAM.INFO.S", '{"deleted_details":true,"subjects_filter":">"}'),
    *asks("STREAM.MSG.GET.S", '{"seq":5}', '{"last_by_subj":">"}', '{"start_time":"2020-01-01T00:00:00Z"}'),
    *asks("STREAM.MSG.DELETE.S", '{"seq":5}', '{"seq":12}'),
    Publish("s.1", b"once more"),
    Ask("STREAM.INFO.S"),
    Ask("STREAM.CREATE.M", '{"name":"M","storage":"memory","subjects":["m.*"],"max_bytes":1000000}'),
    Publish("m.1", b"x"),
    *asks("STREAM.MSG.DELETE.M", '{"seq":0}', '{"seq":9}', '{"seq":1}', '{"seq":1}'),
    Ask("STREAM.CREATE.D", '{"name":"D","deny_delete":true,"deny_purge":true,"max_bytes":5000}'),
    Publish("D", b"x"),
    *asks("STREAM.MSG.DELETE.D", '{"seq":1}', '{"seq":9}'),
    *asks("STREAM.PURGE.D", "", '{"seq":1,"keep":1}'),
    *asks("STREAM.NAMES", "", "x", '{"subject":"s.1"}', '{"subject":"*.1"}', '{"offset":1}', '{"offset":-5}',
          '{"subject":">","offset":2}'),
    *asks("STREAM.LIST", "", '{"subject":"m.1"}', '{"offset":2}', '{"offset":9}', '{"subject":"none"}',
          '{"offset":"x"}'),
    Ask("STREAM.UPDATE.S", '{"name":"S","subjects":["s.>","r"]}'),
    Ask("STREAM.INFO.S"),
    *asks("CONSUMER.NAMES.S", "", '{"offset":5}'),
    *asks("CONSUMER.NAMES.NONE", "", "[1]"),
    *asks("CONSUMER.LIST.S", "", '{"x":1}'),
    Ask("CONSUMER.LIST.NONE"),
    *asks("CONSUMER.INFO.S.c", "", "x"),
    *asks("CONSUMER.INFO.NONE.c", "", "x"),
    *asks("CONSUMER.DELETE.S.c", "", "x"),
    Ask("CONSUMER.DELETE.NONE.c"),
    *asks("CONSUMER.PAUSE.S.c", "", '{"pause_until":"x"}'),
    Ask("CONSUMER.PAUSE.NONE.c"),
    *asks("CONSUMER.UNPIN.S.c", '{"group":""}', '{"group":"a b"}', '{"group":"a"}'),
    Ask("CONSUMER.UNPIN.NONE.c", '{"group":"a"}'),
    *asks("CONSUMER.CREATE.S", "{", '{"x":1}', '{"stream_name":"T"}'),
    *asks("CONSUMER.CREATE.NONE.c", '{"stream_name":"NONE","config":{"ack_policy":"explicit","name":"c"}}'),
    Ask("STREAM.SNAPSHOT.S"),
    Ask("STREAM.SNAPSHOT.NONE", '{"deliver_subject":"d"}'),
    *asks("STREAM.SNAPSHOT.S", '{"deliver_subject":"a.*"}', '{"x":1}', '{"jsck":true}'),
    Ask("STREAM.RESTORE.S"),
    *asks("STREAM.RESTORE.S", '{"config":{"name":"S"},"state":{}}', '{"config":{"name":"T"}}', '{"config":{"x":1}}',
          '{"config":{"max_age":-1}}'),
    Ask("STREAM.PEER.REMOVE.S"),
    Ask("STREAM.PEER.EVACUATE.S"),
    Ask("STREAM.LEADER.STEPDOWN.S"),
    Ask("STREAM.LEADER.STEPDOWN.NONE", level="99"),
    Ask("STREAM.CANCEL_MOVE.S"),
    Ask("CONSUMER.LEADER.STEPDOWN.S.c"),
    Ask("CONSUMER.PEER.REMOVE.S.c"),
    Ask("CONSUMER.PEER.EVACUATE.S.c"),
    *asks("STREAM.DELETE.S", "x", "null", '{"a":1}', " {} "),
    *asks("STREAM.DELETE.S", "{}", "x"),
    Ask("STREAM.INFO.S"),
    Ask("INFO"),
]  # fmt: skip

UNANSWERED = (
    "NOPE", "STREAM", "STREAM.NOPE", "STREAM.CREATE", "STREAM.INFO.a.b", "STREAM.NAMES.a", "INFO.x", "CONSUMER.CREATE",
    "CONSUMER.INFO.a", "CONSUMER.INFO.a.b.c", "CONSUMER.MSG.NEXT.S.c", "DIRECT.GET.NONE", "ACCOUNT.PURGE.x",
    "META.LEADER.STEPDOWN", "SERVER.REMOVE", "CONSUMER.DURABLE.CREATE.S.bad.name",
)  # fmt: skip
"""Endpoints that nobody answers."""
