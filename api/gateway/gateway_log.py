"""The gateway's warnings."""

from conf.log import log


def report(event: str, reason: str) -> None:
    """Log a warning with its reason."""
    log.warning(event, reason=reason.strip())
