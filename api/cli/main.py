"""Where the ``silt`` command begins.

``silt gateway`` must answer within a second of its start, so it goes to its process at once: neither typer nor
rich is imported on that way.
"""

import runpy
import sys


def run() -> None:
    """Run the command line in ``sys.argv``; ends the process with the verb's exit code."""
    if sys.argv[1:2] == ["gateway"] and not {"--help", "-h"} & set(sys.argv[2:]):
        sys.argv = ["silt gateway", *sys.argv[2:]]
        runpy.run_module("api.gateway_main", run_name="__main__", alter_sys=True)
        return
    from tomllib import TOMLDecodeError

    from pydantic import ValidationError

    from api.cli.app import app
    from api.cli.exit_codes import Exit
    from conf.settings import ConfigMissing, UnknownSetting

    try:
        app(prog_name="silt")
    except (UnknownSetting, ConfigMissing, TOMLDecodeError) as error:
        sys.exit(_usage(str(error), Exit.USAGE))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors())
        sys.exit(_usage(f"wrong setting: {wrong}", Exit.USAGE))


def _usage(text: str, code: int) -> int:
    sys.stderr.write(f"silt: {text}\n")
    return code


if __name__ == "__main__":
    run()
