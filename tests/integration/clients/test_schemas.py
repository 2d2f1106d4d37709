"""Streams with a schema, through nats-py and the nats CLI: what a client sees of a message that does not fit."""

import asyncio
import json
import subprocess

import nats
import pytest
from nats.js.api import KeyValueConfig, StreamConfig
from nats.js.errors import APIError

SCHEMA = json.dumps({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
RULE = {"silt.schema": SCHEMA, "silt.validate": "reject"}


def test_a_misfit_is_an_error_of_its_own(pair: tuple[str, str]) -> None:
    """The client gets the reason and Silt's code, and the stream has only what fits; deletions in a bucket go on."""

    async def work() -> None:
        client = await nats.connect(pair[1])
        try:
            stream = client.jetstream()
            await stream.add_stream(StreamConfig("SCHEMA", subjects=["schema"], metadata=RULE))
            assert (await stream.publish("schema", b'{"n":1}')).seq == 1
            with pytest.raises(APIError) as caught:
                await stream.publish("schema", b'{"n":"x"}')
            assert (caught.value.code, caught.value.err_code) == (400, 20001)
            assert "Expected `int`, got `str` - at `$.n`" in str(caught.value.description)
            assert (await stream.stream_info("SCHEMA")).state.messages == 1
            bucket = await stream.create_key_value(KeyValueConfig("SCHEMA"))
            info = await stream.stream_info("KV_SCHEMA")
            info.config.metadata = RULE
            await stream.update_stream(info.config)
            await bucket.put("k", b'{"n":1}')
            with pytest.raises(APIError):
                await bucket.put("k", b"no JSON")
            await bucket.delete("k")
            assert (await bucket.history("k"))[-1].operation == "DEL"
        finally:
            await client.close()

    asyncio.run(work())


def test_a_schema_is_given_by_the_cli(cli: str, pair: tuple[str, str]) -> None:
    """As metadata; one that can't be kept is refused in words."""
    add = [cli, "-s", pair[1], "stream", "add", "--defaults", "--subjects", "schema2", "SCHEMA2", "--metadata"]
    done = subprocess.run([*add, f"silt.schema={SCHEMA}"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    wrong = [*add[:-2], "SCHEMA3", "--metadata", 'silt.schema={"type":"object","properties":{"a":{"not":{}}}}']
    refused = subprocess.run(wrong, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    assert "$.a: 'not' is not checked by Silt" in refused.stderr + refused.stdout
