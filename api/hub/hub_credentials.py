"""The logins to the nats-server of ``silt up``: generated at its first start, in a file that only the owner can read.

A leafnode always needs its login, so no other process can attach to the leafnode listener and answer in Silt's place.
Clients need theirs if ``hub.require_credentials`` is set. ``nats.leaf_user`` and ``nats.user``, with their passwords,
replace the generated ones.
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from api.hub.hub_config import Login
from conf.setting_sources import SettingsError
from conf.settings import NatsSettings
from delta_store.storage.private_files import make_private_folder, write_private

FILE = "credentials.json"
CONTEXT_FILE = "context.json"
_PASSWORD_BYTES = 24


@dataclass(frozen=True, slots=True)
class HubCredentials:
    """The logins of the leaf link and of clients."""

    leaf: Login
    client: Login


def hub_credentials(folder: Path, nats: NatsSettings) -> HubCredentials:
    """Return the logins of the settings, else of the file in ``folder``, else new ones, saved to that file.

    Raises ``SettingsError`` if the settings have a user without a password or vice versa, or the file can't be used.
    """
    make_private_folder(folder)
    path = folder / FILE
    kept = _read(path)
    found = {}
    for role, user, password in (
        ("leaf", nats.leaf_user, nats.leaf_password),
        ("client", nats.user, nats.password),
    ):
        if (user is None) != (password is None):
            prefix = "leaf_" if role == "leaf" else ""
            raise SettingsError(f"nats.{prefix}user and nats.{prefix}password go together")
        if user is not None and password is not None:
            found[role] = Login(user, password.get_secret_value())
        else:
            kept.setdefault(role, {"user": f"silt-{role}", "password": secrets.token_urlsafe(_PASSWORD_BYTES)})
            found[role] = Login(**kept[role])
    if kept and kept != _read(path):
        write_private(path, json.dumps(kept, indent=2) + "\n")
    return HubCredentials(found["leaf"], found["client"])


def write_context(folder: Path, url: str, client: Login | None) -> None:
    """Write a context for the ``nats`` command and ``silt stream``, to be copied to ~/.config/nats/context/."""
    login = {} if client is None else {"user": client.user, "password": client.password}
    context = {"description": "the nats-server of silt up", "url": url, **login}
    write_private(folder / CONTEXT_FILE, json.dumps(context, indent=2) + "\n")


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        kept = json.loads(path.read_text())
        return {role: {"user": str(login["user"]), "password": str(login["password"])} for role, login in kept.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise SettingsError(
            f"{path} can't be used ({type(error).__name__}); remove it to have a new one made"
        ) from None
