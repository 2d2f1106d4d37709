"""The error of an archive that is not to be trusted."""


class BadArchive(ValueError):
    """The bytes are no archive, or one that is cut, damaged or hostile; the text says how."""
