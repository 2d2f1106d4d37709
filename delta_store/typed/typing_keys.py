"""The keys of a stream's metadata that tell of its typed table; persisted with the stream's configuration. Pure.

=======================  =====================================================================================
``silt.schema``          JSON Schema, Avro schema, base64 of a Protobuf FileDescriptorSet, or ``infer``
``silt.schema.message``  full name of the Protobuf message
``silt.table``           ``append`` (default): each message is a row; ``latest``: the last one of each subject
``silt.validate``        ``dlq`` (default): what does not fit is a dead letter; ``reject``: it is not stored
=======================  =====================================================================================

Without a schema the stream has no typed table.
"""

import json
from collections.abc import Mapping
from typing import Final

SCHEMA: Final = "silt.schema"
MESSAGE: Final = "silt.schema.message"
TABLE: Final = "silt.table"
VALIDATE: Final = "silt.validate"
INFER: Final = "infer"
"""The schema of a stream whose columns follow from its payloads."""
CHOICES: Final = {TABLE: ("append", "latest"), VALIDATE: ("dlq", "reject")}
"""The values of the other keys, the default first."""


def own_metadata(metadata: Mapping[str, str]) -> str:
    """Return what metadata says of a typed table, as a text; empty for nothing."""
    ours = {key: value for key, value in sorted(metadata.items()) if key in (SCHEMA, MESSAGE, *CHOICES)}
    return json.dumps(ours) if ours else ""
