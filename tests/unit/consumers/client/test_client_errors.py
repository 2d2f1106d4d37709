"""Errors: one tree, kinds that last, and the class that a server's answer becomes."""

import pytest

from consumers.client import errors
from consumers.client.errors import ErrorKind, JetStreamError, api_error, direct_get_error


def _tree(root: type[JetStreamError]) -> list[type[JetStreamError]]:
    return [root, *[found for child in root.__subclasses__() for found in _tree(child)]]


def test_all_errors_are_of_one_tree_and_say_their_kind() -> None:
    """Each exception of the module has the one root and a kind, and every kind is some error's."""
    tree = _tree(JetStreamError)
    defined = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    assert set(defined) <= set(tree)
    kinds = {error.kind for error in tree if "kind" in vars(error)}
    assert kinds == set(ErrorKind)


def test_kinds_are_stable() -> None:
    """The values that programs may have stored are still there."""
    assert {kind.value for kind in ErrorKind} >= {
        "already_acknowledged", "already_exists", "bad_pull", "connection_lost", "consumer_deleted",
        "consumer_is_push", "consumer_not_found", "heartbeat_missed", "message_not_found", "no_responders",
        "nothing_found", "pull_limit_exceeded", "request_timeout", "sequence_gap", "stream_not_found",
        "too_many_subjects", "usage",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "err_code", "kind", "retryable"),
    [
        (404, 10059, ErrorKind.STREAM_NOT_FOUND, False),
        (404, 10014, ErrorKind.CONSUMER_NOT_FOUND, False),
        (400, 10149, ErrorKind.CONSUMER_NOT_FOUND, False),
        (404, 10037, ErrorKind.MESSAGE_NOT_FOUND, False),
        (400, 10058, ErrorKind.ALREADY_EXISTS, False),
        (400, 10148, ErrorKind.ALREADY_EXISTS, False),
        (400, 10052, ErrorKind.INVALID_REQUEST, False),
        (503, 10008, ErrorKind.SERVER_FAILURE, True),
        (500, 10074, ErrorKind.INVALID_REQUEST, False),
    ],
)
def test_the_servers_errors_become_kinds(code: int, err_code: int, kind: ErrorKind, retryable: bool) -> None:
    """A refused request is told apart by its err_code, or else by its code."""
    error = api_error(code, err_code, "text")
    assert (error.kind, error.retryable, error.code, error.err_code) == (kind, retryable, code, err_code)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (404, ErrorKind.NOTHING_FOUND),
        (408, ErrorKind.BAD_DIRECT_GET),
        (412, ErrorKind.API_LEVEL_TOO_LOW),
        (413, ErrorKind.TOO_MANY_SUBJECTS),
        (500, ErrorKind.DIRECT_GET_FAILED),
        (0, ErrorKind.DIRECT_GET_FAILED),
    ],
)
def test_statuses_of_direct_get_become_kinds(code: int, kind: ErrorKind) -> None:
    """Each status of Direct Get has an error of its own."""
    assert direct_get_error(code, "text").kind == kind
