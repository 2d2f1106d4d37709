"""The rule by which a stream takes only payloads that have its schema. Pure."""

from collections.abc import Callable, Mapping

from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.payload_decoder import Misfit, is_marker
from delta_store.typed.typing_keys import SCHEMA, VALIDATE
from delta_store.typed.typing_terms import decoder_of, schema_in

PayloadRule = Callable[[bytes, bytes], str | None]
"""From a message's header block (empty without one) and payload: why it is not stored, or None."""


def payload_rule(metadata: Mapping[str, str]) -> PayloadRule | None:
    """Return the rule in a stream's metadata; None without one, or with a schema that can't be used."""
    if metadata.get(VALIDATE) != "reject" or SCHEMA not in metadata:
        return None
    try:
        decode = decoder_of(schema_in(metadata)).decode
    except BadSchema:
        return None

    def refused(headers: bytes, payload: bytes) -> str | None:
        try:
            decode(payload)
        except Misfit as misfit:
            return None if is_marker(headers) else str(misfit)
        return None

    return refused
