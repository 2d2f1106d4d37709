"""What the gateway says on its standard error: one JSON object a line."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress

from ingest.protocol.link import LinkStatus


def report(event: str, reason: str) -> None:
    """Say what happened; a log on a full disk loses text but stops nobody."""
    with suppress(OSError):
        sys.stderr.write(json.dumps({"event": event, "reason": reason.strip()}) + "\n")
        sys.stderr.flush()


def report_link(link: str) -> Callable[[LinkStatus], None]:
    """What says how a link fares."""

    def said(status: LinkStatus) -> None:
        reason = str(status.error) if status.error else ""
        report(f"{link} link {'attached' if status.attached else 'not attached'}", f"{status.address} {reason}")

    return said
