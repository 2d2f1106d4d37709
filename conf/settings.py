"""What can be chosen: one typed, frozen model; every name ends in its unit and unknown names are refused.

A value is looked for in the arguments, then in the environment (``SILT_HTTP__PORT=8080`` sets ``http.port``), then in
the TOML file that ``SILT_CONFIG`` names, then here. What can not be chosen is in ``conf.limits``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

CONFIG_VARIABLE = "SILT_CONFIG"
NOT_SETTINGS = frozenset({CONFIG_VARIABLE, "SILT_DATA"})
"""Variables of ours that name files and folders, not settings."""
FAILPOINT_PREFIX = "SILT_FAILPOINT"
"""Variables with this prefix make tests fail at a named place; they are not settings either."""


class UnknownSetting(ValueError):
    """The environment holds a ``SILT_…`` variable that sets nothing."""


class ConfigMissing(FileNotFoundError):
    """``SILT_CONFIG`` names no file."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Nats(_Section):
    """How to reach and enter the NATS server, on both links."""

    url: str = "nats://127.0.0.1:4222"
    leaf_url: str = "nats-leaf://127.0.0.1:7422"
    domain: str | None = None
    """Serve ``$JS.<domain>.API.>`` beside a server that has a JetStream of its own."""
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    nkey_seed_file: Path | None = None
    credentials_file: Path | None = None
    tls_ca_file: Path | None = None
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None
    connect_timeout_seconds: float = Field(default=2.0, gt=0)
    reconnect_wait_min_seconds: float = Field(default=0.01, gt=0)
    reconnect_wait_max_seconds: float = Field(default=0.04, gt=0)
    """Kept short: a link must be attached within 50 ms of the server's listener opening."""


class Journal(_Section):
    """The append-only table whose commits are acknowledgements."""

    commit_interval_ms: float = Field(default=0.0, ge=0)
    """Least time between two commits: 0 on local disk, about 100 on an object store."""
    group_rows_max: int = Field(default=16_384, gt=0)
    group_bytes_max: int = Field(default=32 * 1024 * 1024, gt=0)
    checkpoint_every_commits: int = Field(default=500, gt=0)
    file_grace_seconds: float = Field(default=300.0, ge=0)
    """How long a truncated file stays on disk for readers that still hold it."""


class Settle(_Section):
    """The Spark job that carries the journal into ``messages``."""

    trigger_interval_seconds: float = Field(default=1.0, ge=0)
    spark_master: str = "local[*]"
    driver_memory_mib: int = Field(default=1024, ge=512)
    compact_interval_seconds: float = Field(default=300.0, gt=0)
    vacuum_interval_seconds: float = Field(default=3600.0, gt=0)
    nice: int = Field(default=10, ge=0, le=19)
    """Settling gives way to acknowledging when both want the processor."""


class Reads(_Section):
    """Direct Get, REST and the cache in front of Parquet."""

    cache_bytes_max: int = Field(default=256 * 1024 * 1024, ge=0)
    concurrency_max: int = Field(default=2, gt=0)
    timeout_seconds: float = Field(default=30.0, gt=0)
    refresh_interval_ms: float = Field(default=100.0, gt=0)


class Http(_Section):
    """The HTTP server."""

    host: str = "127.0.0.1"
    port: int = Field(default=8222, ge=0, le=65535)
    rows_max: int = Field(default=100_000, gt=0)
    """Most messages that one request may ask for."""


class History(_Section):
    """How far back a point-in-time read may go."""

    horizon_seconds: float = Field(default=7 * 24 * 3600.0, ge=0)


class _Toml(TomlConfigSettingsSource):
    """The file that ``SILT_CONFIG`` names; a missing file is an error, no variable is none."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        named = os.environ.get(CONFIG_VARIABLE)
        if named is not None and not Path(named).is_file():
            raise ConfigMissing(f"{CONFIG_VARIABLE} names {named}, which is no file")
        super().__init__(settings_cls, toml_file=named)


class Settings(BaseSettings):
    """All settings of all processes; made once at the start of each."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="SILT_", env_nested_delimiter="__")

    nats: Nats = Nats()
    journal: Journal = Journal()
    settle: Settle = Settle()
    reads: Reads = Reads()
    http: Http = Http()
    history: History = History()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then environment, then the TOML file."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, _Toml(settings_cls)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """The ``SILT_…`` variables that set nothing, sorted."""
    sections = {name.upper(): field.annotation for name, field in Settings.model_fields.items()}
    known = NOT_SETTINGS | {f"SILT_{section}" for section in sections}
    for section, model in sections.items():
        if isinstance(model, type) and issubclass(model, BaseModel):
            known |= {f"SILT_{section}__{name.upper()}" for name in model.model_fields}
    ours = {name for name in environment if name.startswith("SILT_") and not name.startswith(FAILPOINT_PREFIX)}
    return sorted(name for name in ours if name.upper() not in known)


def load_settings(**sections: Any) -> Settings:
    """The settings of this process; arguments are whole sections and win over the rest.

    Raises :class:`UnknownSetting`, :class:`ConfigMissing` or pydantic's ``ValidationError``.
    """
    unknown = unknown_variables(os.environ)
    if unknown:
        raise UnknownSetting(f"no such setting: {', '.join(unknown)}")
    return Settings(**sections)
