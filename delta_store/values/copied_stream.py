"""Which streams have sequences and times that another one gave their messages."""

import json


def is_copy(data: bytes) -> bool:
    """Whether a STREAM row's stream is a mirror or was restored.

    So its sequences may have gaps, and its messages be older than the stream.
    """
    shown = json.loads(data)
    return bool(shown["config"].get("mirror")) or "restored" in shown
