"""What the tests of reading share: a stream with messages in it, and waiting for another process's doing."""

from nats.aio.client import Client

from consumers.client import JetStreamContext, StorageType, Stream, StreamConfig
from consumers.client.errors import MessageNotFound
from tests.waits import until

WAIT_SECONDS = 20.0


async def stream_of(
    js: JetStreamContext, client: Client, count: int, size: int = 0, storage: StorageType = StorageType.MEMORY
) -> Stream:
    """A stream WORK with ``count`` messages on three subjects, each its number padded to ``size``.

    In memory, unless it shall outlive its server: a stream in files that is deleted and made again within
    milliseconds sometimes has its old messages, in nats-server 2.15.
    """
    config = StreamConfig(name="WORK", subjects=["work.*"], allow_direct=True, storage=storage)
    stream = await js.add_stream(config)
    await stream.purge()
    await publish(client, 0, count, size)
    return stream


async def publish(client: Client, first: int, end: int, size: int = 0) -> None:
    """Messages number ``first`` to before ``end``; stored when this returns."""
    for number in range(first, end):
        await client.publish(f"work.{number % 3}", str(number).rjust(size, "0").encode())
    if end > first:
        stream = await JetStreamContext(client).get_stream("WORK")

        async def stored() -> bool:
            try:
                return int((await stream.get_msg(last_for="work.*", direct=False)).data) >= end - 1
            except MessageNotFound:
                return False

        await until(stored)
