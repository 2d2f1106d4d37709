"""The refusal of HTTP listeners open to other machines; imported at start, so it needs no web framework."""

from ipaddress import ip_address

from conf.setting_sources import SettingsError
from conf.settings import HttpSettings


def is_loopback(host: str) -> bool:
    """Whether a listener on the host can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def refuse_open_door(settings: HttpSettings) -> None:
    """Raise ``SettingsError`` for a listener that other machines can reach and that needs no key."""
    if (settings.tls_certificate_file is None) != (settings.tls_key_file is None):
        raise SettingsError("http.tls_certificate_file and http.tls_key_file go together")
    if not is_loopback(settings.host) and settings.api_keys_file is None and settings.jwt_keys_file is None:
        raise SettingsError(
            f"http.host is {settings.host}, which other machines can reach, and nobody would be asked for a key: set "
            "http.api_keys_file (make a key with: silt key new) or http.jwt_keys_file, or listen on 127.0.0.1"
        )
