"""``silt key``: keys that open the HTTP API."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from api.cli.endings import ended
from conf.exit_codes import Exit

app = typer.Typer(help="Keys that open the HTTP API.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Whose key it is; shown nowhere but in the file.")],
    scope: Annotated[list[str], typer.Option(help="What it opens: read, publish, admin, or read:PATTERN. Repeat it.")],
    *,
    file: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Add its hash to this file, made for its owner alone.")
    ] = None,
) -> None:
    """Make a key and print it; it is not kept, only its hash is.

    PATTERN is a stream's name, in which * stands for any characters. Without --file the entry for http.api_keys_file
    goes to standard error. Exit codes: 0 done; 1 the file can't be read or written; 2 wrong usage.
    """
    from api.rest.access import parse_scope
    from api.rest.keys import hash_of, new_key, read_keys
    from delta_store.storage.private_files import write_private

    key, before = new_key(), ""
    try:
        for one in scope:
            parse_scope(one)
        before = file.read_text() if file is not None and file.exists() else ""
        entry = _entry(name, hash_of(key), scope)
        text = f"{before.rstrip()}\n\n{entry}" if before.strip() else entry
        read_keys(text)
        if file is not None:
            write_private(file, text)
    except (ValueError, OSError) as error:
        failed = isinstance(error, OSError)
        reason = f"{file}: {error}" if before or failed else error
        raise ended("key", reason, Exit.FAILED if failed else Exit.USAGE) from None
    if file is None:
        typer.echo(entry, err=True, nl=False)
    typer.echo(key)


@app.command("hash")
def hash_key() -> None:
    """Print the hash of the key that stands on standard input, for an entry of http.api_keys_file.

    Exit codes: 0 done; 2 no key was given.
    """
    from api.rest.keys import KEY_PREFIX, hash_of

    key = sys.stdin.readline().strip()
    if not key.startswith(KEY_PREFIX):
        raise ended("key", f"a key begins with {KEY_PREFIX}", Exit.USAGE)
    typer.echo(hash_of(key))


@app.command()
def profile(
    server: Annotated[
        str, typer.Option(help="URL of the HTTP API, as the reader reaches it.")
    ] = "http://127.0.0.1:8222",
    *,
    file: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write it to this file, made for its owner alone.")
    ] = None,
) -> None:
    """Make a Delta Sharing profile of the key that stands on standard input, for example of silt key new.

    Without a key it is for a server that asks for none. Exit codes: 0 done; 1 the file can't be written; 2 no key.
    """
    import json

    from api.rest.access import SHARING
    from api.rest.keys import KEY_PREFIX
    from delta_store.storage.private_files import write_private

    key = "" if sys.stdin.isatty() else sys.stdin.readline().strip()
    if key and not key.startswith(KEY_PREFIX):
        raise ended("key", f"a key begins with {KEY_PREFIX}", Exit.USAGE)
    fields = {"shareCredentialsVersion": 1, "endpoint": server.rstrip("/") + SHARING, "bearerToken": key or "none"}
    text = json.dumps(fields, indent=2) + "\n"
    if file is None:
        typer.echo(text, nl=False)
        return
    try:
        write_private(file, text)
    except OSError as error:
        raise ended("key", f"{file}: {error}") from None


def _entry(name: str, digest: str, scopes: list[str]) -> str:
    import json

    return f"[[key]]\nname = {json.dumps(name)}\nsha256 = {json.dumps(digest)}\nscopes = {json.dumps(scopes)}\n"
