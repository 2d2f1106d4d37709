"""The settings that ``silt up`` refuses."""

import os
from pathlib import Path

from api.rest.open_door import refuse_open_door
from conf.data_location import DataLocation
from conf.setting_sources import CONFIG_VARIABLE, SettingsError
from conf.settings import Settings

OF_ANOTHER_SERVER = frozenset({
    "url", "leaf_url", "api_over", "token", "nkey_seed_file", "credentials_file", "leaf_nkey_seed_file",
    "leaf_credentials_file",
    "tls_ca_file", "tls_certificate_file", "tls_key_file",
})  # fmt: skip


def share_config() -> None:
    """Make the path of the settings file absolute in the environment, for children in other folders."""
    name = os.environ.get(CONFIG_VARIABLE)
    if name:
        os.environ[CONFIG_VARIABLE] = str(Path(name).resolve())


def refuse_unsettled(data: DataLocation) -> None:
    """Raise ``SettingsError`` for a store that no settle job can read: its journal would fill up."""
    if not data.is_local and not data.uri.startswith("s3://"):
        raise SettingsError(f"{data}: Spark reads folders and s3:// only; silt gateway and silt serve work there")


def refuse_foreign_server(settings: Settings) -> None:
    """Raise ``SettingsError`` if the settings have the address of another nats-server, or HTTP open without keys."""
    refuse_open_door(settings.http)
    nats = settings.nats
    for prefix, user, password in (("", nats.user, nats.password), ("leaf_", nats.leaf_user, nats.leaf_password)):
        if (user is None) != (password is None):
            raise SettingsError(f"nats.{prefix}user and nats.{prefix}password go together")
    foreign = sorted(settings.nats.model_fields_set & OF_ANOTHER_SERVER)
    if foreign:
        names = ", ".join(f"nats.{name}" for name in foreign)
        raise SettingsError(
            f"{names}: silt up starts a nats-server of its own; for one that is there already use silt gateway"
        )
