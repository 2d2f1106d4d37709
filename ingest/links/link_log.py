"""The log lines of a link to the hub."""

from collections.abc import Callable

from conf.log import log
from ingest.protocol.link import LinkStatus
from ingest.protocol.payload_limit import Oversize


def report_link(link: str) -> Callable[[LinkStatus], None]:
    """Return a callback that logs the status of the link of this name."""

    def said(status: LinkStatus) -> None:
        if status.attached:
            log.info(f"{link} link attached", address=status.address)
        else:
            log.warning(f"{link} link not attached", address=status.address, reason=str(status.error or ""))

    return said


def report_oversize(one: Oversize) -> None:
    """Log a message that was too large for the hub and not sent."""
    log.warning("message too large for the hub", subject=one.subject.decode(errors="replace"), bytes=one.size)
