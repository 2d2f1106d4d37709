"""The simplified JetStream client (ADR-37) over nats-py: context, stream, consumer. Imports nothing else of Silt.

It works with any server that speaks the JetStream API::

    js = JetStreamContext(await nats.connect())
    stream = await js.get_stream("ORDERS")
    consumer = await stream.create_or_update_consumer(ConsumerConfig(durable_name="billing"))
    async with consumer.consume() as messages:
        async for message in messages:
            await message.ack()
"""

from nats.js.api import AckPolicy, DeliverPolicy, ReplayPolicy, RetentionPolicy, StorageType, StreamConfig, StreamInfo

from consumers.client.config import ConsumerConfig, ConsumerInfo
from consumers.client.consumer import Consumer
from consumers.client.consumption import Consumption
from consumers.client.context import JetStreamContext
from consumers.client.delivery import Metadata
from consumers.client.direct_get import EndOfBatch
from consumers.client.direct_reader import DirectBatch
from consumers.client.errors import ErrorKind, JetStreamError
from consumers.client.fetch import Fetch
from consumers.client.fetch_state import FetchEnd
from consumers.client.message import Message
from consumers.client.ordered_consumer import OrderedConsumer, OrderedOptions
from consumers.client.pull import ConsumeOptions
from consumers.client.stored_message import StoredMessage
from consumers.client.stream import Stream

__all__ = [
    "AckPolicy",
    "ConsumeOptions",
    "Consumer",
    "ConsumerConfig",
    "ConsumerInfo",
    "Consumption",
    "DeliverPolicy",
    "DirectBatch",
    "EndOfBatch",
    "ErrorKind",
    "Fetch",
    "FetchEnd",
    "JetStreamContext",
    "JetStreamError",
    "Message",
    "Metadata",
    "OrderedConsumer",
    "OrderedOptions",
    "ReplayPolicy",
    "RetentionPolicy",
    "StorageType",
    "StoredMessage",
    "Stream",
    "StreamConfig",
    "StreamInfo",
]
