"""What the gateway's parts tell when something has to wait or was given up."""

from conf.log import log


def report(event: str, reason: str) -> None:
    """Log what happened, and why."""
    log.warning(event, reason=reason.strip())
