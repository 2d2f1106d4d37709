"""What is printed of an error: never nothing."""


def error_text(error: BaseException) -> str:
    """What the error says, with its name where that alone says little (a bare key), or where it says nothing."""
    text = str(error).strip()
    if not text:
        return type(error).__name__
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError | AssertionError) else text
