"""The last message of each subject as of a sequence, read by NATS, REST and SQL."""

import asyncio
import base64
import json
import sys
import tempfile
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.demo.flights import Answer
from conf.data_location import DataLocation

if TYPE_CHECKING:
    from nats.aio.client import Client

NATS_SECONDS = 60.0
HTTP_SECONDS = 60.0
SQL_SECONDS = 300.0


class NotAnswered(RuntimeError):
    """One of the three reads failed."""


async def by_nats(client: "Client", stream: str, subjects: str, as_of: int) -> dict[str, Answer]:
    """Read by Direct Get with ``multi_last`` and ``up_to_seq`` (ADR-31)."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    question = json.dumps({"multi_last": [subjects], "up_to_seq": as_of}).encode()
    await client.publish(f"$JS.API.DIRECT.GET.{stream}", question, reply=inbox)
    found: dict[str, Answer] = {}
    try:
        async with asyncio.timeout(NATS_SECONDS):
            async for message in subscription.messages:
                headers = message.headers or {}
                if headers.get("Status") == "204":
                    return found
                if "Status" in headers:
                    raise NotAnswered(f"Direct Get: {headers['Status']} {headers.get('Description')}")
                found[headers["Nats-Subject"]] = Answer(int(headers["Nats-Sequence"]), message.data)
    except TimeoutError:
        raise NotAnswered(f"Direct Get: no end of batch within {NATS_SECONDS} s") from None
    finally:
        await subscription.unsubscribe()
    raise NotAnswered("Direct Get: the connection ended before the batch did")


def by_rest(base_url: str, stream: str, subjects: str, as_of: int) -> dict[str, Answer]:
    """Read by ``GET /v1/streams/{stream}/multi-last``."""
    query = urlencode({"subject": subjects, "up_to_seq": as_of})
    address = f"{base_url}/v1/streams/{stream}/multi-last?{query}"
    with urllib.request.urlopen(address, timeout=HTTP_SECONDS) as reply:  # noqa: S310  # our own server
        messages = json.load(reply)["messages"]
    return {message["subject"]: Answer(message["seq"], base64.b64decode(message["data"])) for message in messages}


async def by_sql(data: DataLocation, stream: str, subjects: str, as_of: int) -> dict[str, Answer]:
    """Read by ``silt sql`` with the table function ``multi_last``."""
    statement = f"SELECT subject, seq, text FROM multi_last('{stream}', '{subjects}', {as_of})"  # noqa: S608
    command = [sys.executable, "-P", "-m", "api.cli.main", "sql", statement, "--data", str(data), "--output", "json"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=tempfile.gettempdir()
    )
    try:
        async with asyncio.timeout(SQL_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        raise NotAnswered(f"silt sql: no answer within {SQL_SECONDS} s") from None
    if process.returncode != 0:
        raise NotAnswered(f"silt sql: {err.decode(errors='replace')[-2000:]}")
    return {row["subject"]: Answer(row["seq"], row["text"].encode()) for row in json.loads(out)}
