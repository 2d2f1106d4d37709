"""The variables that give settings, and what can be wrong with them.

Most commands run without any: they need not import :mod:`conf.settings`, which takes a fifth of a second.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final

PREFIX: Final = "SILT_"
CONFIG_VARIABLE: Final = "SILT_CONFIG"
DATA_VARIABLE: Final = "SILT_DATA"
NOT_SETTINGS: Final = frozenset({CONFIG_VARIABLE, DATA_VARIABLE})
"""Variables of ours that name files and folders, not settings."""
FAILPOINT_PREFIX: Final = "SILT_FAILPOINT"
"""Prefix of the variables by which tests make a process fail at a named place; no settings either."""


class SettingsError(ValueError):
    """A setting is unknown, wrong or contradicts another; the text names it, and never holds a secret's value."""


class UnknownSetting(SettingsError):
    """The environment holds a ``SILT_…`` variable that sets nothing."""


class ConfigMissing(SettingsError):
    """The file that ``SILT_CONFIG`` names can't be read, or not as TOML."""


def check_settings() -> None:
    """Raise :class:`SettingsError` for wrong settings; where none is given, the defaults stand unread."""
    if CONFIG_VARIABLE in os.environ or any(given_variables(os.environ)):
        from conf.settings import load_settings

        load_settings()


def given_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Iterate over the variables that set something, or are meant to, and their values, ascending by name."""
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS and not variable.startswith(FAILPOINT_PREFIX):
            yield variable, value
