"""The text that is printed for an error."""


def error_text(error: BaseException) -> str:
    """Return an error's text, never empty: with the class name where the text alone is a bare key or empty."""
    text = str(error).strip()
    if not text:
        return type(error).__name__
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError | AssertionError) else text
