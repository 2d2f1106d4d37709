"""A publisher that goes on until its message is acknowledged, as clients do."""

import asyncio
import json

from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout


async def publish(connection: Client, subject: str, number: int) -> int:
    """Publish until it is acknowledged, as clients do; return its sequence."""
    while True:
        try:
            headers = {"Nats-Msg-Id": f"{subject} {number}"}
            answer = await connection.request(subject, str(number).encode(), timeout=0.5, headers=headers)
        except (NoRespondersError, NatsTimeout):
            await asyncio.sleep(0.05)
            continue
        said = json.loads(answer.data)
        if "error" not in said:
            return int(said["seq"])
