"""Which settings have no place beside ``silt up``."""

from conf.settings import Settings, SettingsError

OF_ANOTHER_SERVER = frozenset({
    "url", "leaf_url", "api_over", "token", "nkey_seed_file", "credentials_file",
    "tls_ca_file", "tls_certificate_file", "tls_key_file",
})  # fmt: skip


def refuse_foreign_server(settings: Settings) -> None:
    """Raise ``SettingsError`` when the settings say where another nats-server is, or how to enter it."""
    foreign = sorted(settings.nats.model_fields_set & OF_ANOTHER_SERVER)
    if foreign:
        names = ", ".join(f"nats.{name}" for name in foreign)
        raise SettingsError(
            f"{names}: silt up starts a nats-server of its own; for one that is there already use silt gateway"
        )
