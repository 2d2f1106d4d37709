"""The whole command line as one object, for help, documentation and tests."""

from api.cli.verbs import command_line

app = command_line()
