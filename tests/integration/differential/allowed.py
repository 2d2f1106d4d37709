"""The deliberate differences between Silt and nats-server, each with its reason.

A step named here must differ, and only at the paths given (a path covers everything below it), and Silt's answer must
hold the words given; a step not named here must be equal. So the table can neither hide a new difference nor outlive
an old one.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One step that is meant to differ."""

    scenario: str
    label: str
    paths: tuple[str, ...]
    silt: str
    """What the lines that tell the difference must contain."""
    reason: str
    told: str
    """Words of the README that tell users of it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A difference that may be wherever a line tells one like this, in scenarios named so."""

    scenarios: re.Pattern[str]
    line: re.Pattern[str]
    reason: str
    told: str

    def permits(self, scenario: str, line: str) -> bool:
        """Whether a line that tells a difference is meant."""
        return bool(self.line.fullmatch(line) and self.scenarios.fullmatch(scenario))


def _later(config: str) -> Difference:
    reason = "Silt refuses what it does not serve yet, with nats-server's own kind of error, instead of ignoring it."
    refused = "'err_code': 10052, 'description': '"
    return Difference(
        "create_later_fields", f"create with {config}", ("[0].json",), refused, reason, "None is silently ignored"
    )


def _names(scenario: str, label: str) -> Difference:
    reason = "An empty list is [] and not null: strict clients want an array where the schema says one."
    return Difference(
        scenario, label, ("[0].json.streams",), "None → []", reason, "An empty page of stream names is `[]`"
    )


def _counted(label: str, difference: str) -> Difference:
    reason = "nats-server copies through consumers of the origin, and counts them; Silt's copies need none."
    return Difference(
        "copies_that_consume", label, ("[0].json.state.consumer_count",), difference, reason, "it lists and counts none"
    )


def _gone(label: str) -> Difference:
    reason = "Silt says at once that the origin is gone; nats-server when it misses ten seconds of heartbeats."
    paths = ("[0].json.mirror.active", "[0].json.mirror.error")
    shown = "'description': 'stream not found'"
    return Difference("mirrors_answering_for_their_origin", label, paths, shown, reason, "says so at once")


_PAST = "Silt answers from the table's history what nats-server can only answer from what limits have left."

ALLOWED: tuple[Difference, ...] = (
    _later("{'sources': [{'name': 'O', 'consumer': {'name': 'C', 'deliver_subject': 'd'}}]}"),
    *(_counted(f"info of {name} all copied", "2 → 0") for name in "QI"),
    *(_counted(f"info of {name} one is left to a consumer", "3 → 1") for name in "QI"),
    _gone("nobody decides on mirror_direct"),
    _gone("off again"),
    _gone("on again"),
    _names("create_bad_names", "no stream came of all this"),
    _names("names_and_lists", "STREAM.NAMES with no stream"),
    _names("names_and_lists", 'STREAM.NAMES {"subject": "none"}'),
    _names("names_and_lists", 'STREAM.NAMES {"offset": 3}'),
    _names("names_and_lists", 'STREAM.NAMES {"offset": 9}'),
    _names("names_and_lists", 'STREAM.NAMES {"offset": "one"}'),
    _names("names_and_lists", 'STREAM.NAMES {"nonsense": true}'),
    _names("names_and_lists", "STREAM.NAMES {"),
    Difference(
        "create_limits_refused",
        'create {"name": "LIM", "subjects": ["lim"], "max_bytes": 4611686018427387904}',
        ("[0].json",),
        "'max_bytes': 4611686018427387904",
        "nats-server reserves max_bytes on its disk; Silt's store may be an object store and reserves nothing.",
        "`max_bytes` reserves no disk space",
    ),
    Difference(
        "create_limits_refused",
        "delete after {'max_bytes': 4611686018427387904}",
        ("[0].json",),
        "success: True",
        "Follows from the step before.",
        "`max_bytes` reserves no disk space",
    ),
    Difference(
        "bodies_of_late_sequences",
        'create {"name": "N", "subjects": ["n"], "first_seq": 9223372036854775808}',
        ("[0].json",),
        "first sequence can not be above 2305843009213693952",
        "Delta's integers of 64 bits have a sign: a stream begins no later than a quarter of the way to their end.",
        "begins no later than with sequence 2^61",
    ),
    Difference(
        "purge_parts",
        'STREAM.INFO.PP5 {"subjects_filter": ">", "deleted_details": true}',
        ("[0].json.state.first_seq", "[0].json.state.last_seq"),
        "98 → 10",
        "A purge below a sequence that is still to come removes messages; it does not skip sequences not yet given.",
        "a sequence that is still to come skips no sequence",
    ),
    Difference(
        "message_get_empty",
        "STREAM.INFO.NIL",
        ("[0].json.state.first_seq",),
        "1 → 0",
        "Purging a stream that never had a message changes nothing; nats-server then shows a first sequence.",
        "never had a message changes nothing",
    ),
    Difference(
        "direct_multi_past",
        "multi up to the time just after 7",
        ("[4].headers[2]",),
        "'Nats-UpTo-Sequence: 8' → 'Nats-UpTo-Sequence: 7'",
        "Message 8 came after that time and was deleted since: the history knows it, what is left does not.",
        "that was removed before it",
    ),
    Difference(
        "push_resume",
        "CONSUMER.PAUSE.S.C",
        ("[0].events.d", "[0].info of C"),
        "'payload': 'm1'",
        "Who resumes a consumer gets what waits; nats-server delivers it only when the next message is stored.",
        "gets what waits at once",
    ),
    Difference(
        "fast_batches_last_id",
        "within",
        ("",),
        '{"type":"err","seq":4,"error":{"code":400,"err_code":10070,',
        "The batch ends with what was stored; nats-server counts a message that it refused as stored.",
        "refuses the message but counts it as stored",
    ),
    Difference("direct_true_past", "past.x and past.y at 4", ("",), "'payload': 'y1'", _PAST, "gives the true past"),
    Difference("direct_true_past", "past.x at 2", ("",), "'payload': 'x2'", _PAST, "gives the true past"),
)

EVERYWHERE: tuple[Rule, ...] = (
    Rule(
        re.compile(r"random_.*_in_memory|direct_requests_of_memory"),
        re.compile(r".*\.state\.bytes: .*"),
        "nats-server's memory store counts other bytes than its file store; Silt has one store.",
        "its bytes count as those of a file store",
    ),
)
