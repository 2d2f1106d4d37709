"""A raw header block's fields. Pure."""


def header_fields(block: bytes | None) -> dict[str, list[str]]:
    """Parse a raw header block into its fields, in order; a repeated field has several values."""
    fields: dict[str, list[str]] = {}
    for line in (block or b"").split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            fields.setdefault(name.decode("utf-8", "replace"), []).append(value.strip().decode("utf-8", "replace"))
    return fields
