"""The error of a schema that no table can have."""


class BadSchema(ValueError):
    """A stream's schema can't be used; the text says where and why, and what to do."""
