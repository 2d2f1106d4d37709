"""The requests of ``$JS.API.CONSUMER.*``, for streams and the context alike."""

from collections.abc import AsyncIterator
from datetime import datetime
from enum import StrEnum

from nats.js import api
from nats.nuid import NUID

from consumers.client.api_call import Api
from consumers.client.config import ConsumerInfo
from consumers.client.errors import UsageError
from consumers.client.names import checked, checked_subject
from consumers.client.stored_message import write_time


class CreateAction(StrEnum):
    """The ``action`` of a create request: what may happen to a consumer of that name."""

    CREATE = "create"
    UPDATE = "update"
    EITHER = ""


async def create(calls: Api, stream: str, config: api.ConsumerConfig, action: CreateAction) -> ConsumerInfo:
    """Create or update a consumer; one without a name gets one."""
    checked(stream, "stream")
    fields = config.as_dict()
    name = config.name or config.durable_name or NUID().next().decode()
    if config.durable_name and config.durable_name != name:
        raise UsageError("name and durable_name differ")
    fields["name"] = checked(name, "consumer")
    verb = f"CONSUMER.CREATE.{stream}.{name}"
    if config.filter_subject:
        verb += "." + checked_subject(config.filter_subject)
    body = {"stream_name": stream, "config": fields, "action": action.value}
    return ConsumerInfo.from_response(await calls.call(verb, body))


async def info(calls: Api, stream: str, name: str) -> ConsumerInfo:
    """Ask for a consumer's configuration and state."""
    return ConsumerInfo.from_response(await calls.call(f"CONSUMER.INFO.{_names(stream, name)}"))


async def delete(calls: Api, stream: str, name: str) -> None:
    """Delete a consumer; its waiting pulls end with a status."""
    await calls.call(f"CONSUMER.DELETE.{_names(stream, name)}")


async def pause(calls: Api, stream: str, name: str, until: datetime | None) -> api.ConsumerPause:
    """Pause a consumer until ``until``; None resumes it."""
    body = {"pause_until": write_time(until)} if until else None
    return api.ConsumerPause.from_response(await calls.call(f"CONSUMER.PAUSE.{_names(stream, name)}", body))


async def infos(calls: Api, stream: str) -> AsyncIterator[ConsumerInfo]:
    """Yield all consumers of a stream."""
    async for item in calls.pages(f"CONSUMER.LIST.{checked(stream, 'stream')}", "consumers"):
        yield ConsumerInfo.from_response(item)


async def names(calls: Api, stream: str) -> AsyncIterator[str]:
    """Yield the names of all consumers of a stream."""
    async for name in calls.pages(f"CONSUMER.NAMES.{checked(stream, 'stream')}", "consumers"):
        yield name


def _names(stream: str, name: str) -> str:
    return f"{checked(stream, 'stream')}.{checked(name, 'consumer')}"
