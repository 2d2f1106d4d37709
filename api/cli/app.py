"""The verbs of ``silt``, gathered; each stands in a file of its own."""

from typing import Annotated

import typer

from api.cli import demo, doctor, gateway, key, kv, repair, serve, settle, sql, stream, up, verify
from api.cli.exit_codes import EPILOG

app = typer.Typer(
    help="Silt: a stream store with the NATS JetStream API in front and open Delta Lake tables behind.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up")(up.up)
app.command("gateway", context_settings=gateway.CONTEXT)(gateway.gateway)
app.command("settle")(settle.settle)
app.command("serve")(serve.serve)
app.command("sql")(sql.sql)
app.command("doctor")(doctor.doctor)
app.command("verify")(verify.verify)
app.command("repair")(repair.repair)
app.add_typer(stream.app, name="stream")
app.add_typer(kv.app, name="kv")
app.add_typer(key.app, name="key")
app.command("demo")(demo.demo)


@app.callback(invoke_without_command=True)
def silt(*, version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    """Silt: a stream store with the NATS JetStream API in front and open Delta Lake tables behind."""
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"silt {version_of('silt')}")
        raise typer.Exit
