"""The settings: one typed, frozen model; every name ends in its unit and unknown names are refused.

A value comes from the arguments, else the environment (``SILT_HTTP__PORT=8080`` sets ``http.port``), else the TOML file
that ``SILT_CONFIG`` names, else the default here. What can't be configured is in ``conf.limits``.
"""

import os
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from conf.setting_sources import CONFIG_VARIABLE, PREFIX, ConfigMissing, SettingsError, UnknownSetting, given_variables

SigningAlgorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""The asymmetric ones: a server that only checks tokens can't sign any."""
_Item = TypeVar("_Item")


def _split(value: object) -> object:
    """Split the environment's comma-separated text into a list; pass any other value on."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


Names = Annotated[tuple[_Item, ...], BeforeValidator(_split)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NatsSettings(_Section):
    """Address and login of the NATS server, for both links."""

    url: str = "nats://127.0.0.1:4222"
    leaf_url: str = "nats-leaf://127.0.0.1:7422"
    domain: str | None = None
    """Serve ``$JS.<domain>.API.>`` beside a server that has a JetStream of its own."""
    api_over: Literal["client", "leaf"] = "client"
    """Link for ``$JS.API.>`` and ``$KV.>``: leaf only where the server lets them cross."""
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    nkey_seed_file: Path | None = None
    credentials_file: Path | None = None
    leaf_user: str | None = None
    """Login of the leaf link where it differs from the client link's; unset means the same for both."""
    leaf_password: SecretStr | None = None
    leaf_nkey_seed_file: Path | None = None
    leaf_credentials_file: Path | None = None
    tls_ca_file: Path | None = None
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None
    connect_timeout_seconds: float = Field(default=2.0, gt=0)


class HubSettings(_Section):
    """The nats-server that ``silt up`` starts."""

    port: int = Field(default=4222, ge=0, le=65535)
    """For clients, on loopback; 0 takes a free one."""
    require_credentials: bool = False
    """Ask clients for a user and password; leaf nodes are always asked."""


class StorageSettings(_Section):
    """The object store that ``--data`` names by a URL; a folder ignores these.

    Without keys the cloud's own credential chain is used: environment, web identity, container, instance.
    """

    endpoint: str | None = None
    """URL of a store that is not the cloud's own."""
    region: str | None = None
    access_key_id: SecretStr | None = None
    """For Azure: the storage account."""
    secret_access_key: SecretStr | None = None
    """For Azure: the account's key."""
    session_token: SecretStr | None = None
    addressing_style: Literal["auto", "path", "virtual"] = "auto"
    """Whether the bucket stands in the path or in the host; auto: in the path where there is an endpoint."""
    allow_http: bool = False
    connect_timeout_seconds: float = Field(default=5.0, gt=0)
    timeout_seconds: float = Field(default=20.0, gt=0)
    """Of one request, from its start to the end of its answer."""
    local_folder: Path | None = None
    """Below it each URL has a folder for logs, credentials and Spark's checkpoint; unset: the user's state folder."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("access_key_id and secret_access_key go together")
        if self.endpoint is not None and "@" in self.endpoint:
            raise ValueError("endpoint has a login: set access_key_id and secret_access_key")
        if self.endpoint is not None and self.endpoint.startswith("http://") and not self.allow_http:
            raise ValueError("endpoint is not encrypted: set allow_http, or give an https:// URL")
        return self


class JournalSettings(_Section):
    """The append-only table whose commits are acknowledgements."""

    commit_interval_ms: float | None = Field(default=None, ge=0)
    """Least time between two commits; unset: 0 on a local disk, 50 on an object store, except for a lone publisher."""
    commit_rows: int = Field(default=2_000, gt=0)
    commit_bytes: int = Field(default=8 * 1024 * 1024, gt=0)
    """A group of so many rows, or bytes, is committed although more keeps coming and the interval is not over."""

    unsettled_rows_max: int = Field(default=20_000_000, gt=0)
    unsettled_bytes_max: int = Field(default=8 * 1024**3, gt=0)
    unsettled_files_max: int = Field(default=200_000, gt=0)
    """Bounds of the unsettled journal: from half of any of them on acknowledgements are held back, more and more; at it
    publishes are refused (429). Opening a store takes 0.3 ms a file and 2 s a GiB of it."""


class SettleSettings(_Section):
    """The Spark job that carries the journal into ``messages``."""

    trigger_interval_seconds: float = Field(default=1.0, ge=0)
    trigger: Literal["processing-time", "available-now"] = "processing-time"
    """Whether one query runs on, or each settles what is there and ends, all that serverless compute knows."""
    checkpoint_folder: Path | None = None
    """Where Spark keeps the checkpoint of the running query, which may be lost at any time; by default with the data,
    or with the caches of an object store. Spark Connect on another machine needs a folder that both see."""
    spark_master: str = "local[*]"
    driver_memory_mib: int = Field(default=1024, ge=512)
    compact_interval_seconds: float = Field(default=300.0, gt=0)
    vacuum_interval_seconds: float = Field(default=3600.0, gt=0)
    """From the end of one round to the next; longer where rounds are long: they take at most a quarter of the time."""
    nice: int = Field(default=10, ge=0, le=19)
    """Niceness once the query runs, so that acknowledging comes first; while it starts, less."""


class ReadsSettings(_Section):
    """Direct Get, REST and the cache in front of Parquet."""

    cache_bytes_max: int = Field(default=256 * 1024 * 1024, ge=0)
    concurrency_max: int = Field(default=2, gt=0)
    timeout_seconds: float = Field(default=30.0, gt=0)
    refresh_interval_ms: float = Field(default=100.0, gt=0)


class HttpSettings(_Section):
    """The HTTP server."""

    host: str = "127.0.0.1"
    port: int = Field(default=8222, ge=0, le=65535)
    rows_max: int = Field(default=100_000, gt=0)
    """Most messages that one request may ask for."""
    publish_context_file: Path | None = None
    """A context of the ``nats`` command: where and how HTTP clients' messages are published. Unset: by ``nats.url``."""
    sql_processes_max: int = Field(default=2, ge=0)
    """Queries that run at once, each in a process of its own; 0: none."""
    sql_timeout_seconds: float = Field(default=60.0, gt=0)
    sql_memory_mib: int = Field(default=1024, ge=64)
    sql_rows_max: int = Field(default=10_000_000, gt=0)
    """Bounds of one query; one with more rows is broken off with an error, never cut short silently."""
    api_keys_file: Path | None = None
    """Hashes of the keys that open the API, with the scopes of each (``silt key new``)."""
    jwt_keys_file: Path | None = None
    """Public keys (JWKS, or one as PEM) of the issuer whose tokens open the API."""
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_algorithms: Names[SigningAlgorithm] = ("RS256", "ES256", "EdDSA")
    allowed_hosts: Names[str] = ()
    """Names that a request's Host may hold; empty means this machine's own and the one listened on."""
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None


class HistorySettings(_Section):
    """How far back a read of the past may go."""

    horizon_seconds: float = Field(default=7 * 24 * 3600.0, ge=0)


class LimitsSettings(_Section):
    """Limits of the account, as a nats-server's operator sets them for its own JetStream; -1 for none.

    A leaf node is not told what its hub's operator has set for the account, so they are set here.
    """

    max_storage: int = Field(default=-1, ge=-1)
    """Bytes of all streams with storage ``file``; ``max_memory`` of those with ``memory``."""
    max_memory: int = Field(default=-1, ge=-1)
    max_streams: int = Field(default=-1, ge=-1)
    max_consumers: int = Field(default=-1, ge=-1)
    """Of one stream."""
    max_ack_pending: int = Field(default=-1, ge=-1)
    """Of one consumer."""
    storage_max_stream_bytes: int = Field(default=-1, ge=-1)
    memory_max_stream_bytes: int = Field(default=-1, ge=-1)
    """Highest ``max_bytes`` of one stream."""
    max_bytes_required: bool = False


class Settings(_Section):
    """All settings of all processes; each process makes them once, by :func:`load_settings`."""

    nats: NatsSettings = NatsSettings()
    hub: HubSettings = HubSettings()
    storage: StorageSettings = StorageSettings()
    journal: JournalSettings = JournalSettings()
    settle: SettleSettings = SettleSettings()
    reads: ReadsSettings = ReadsSettings()
    http: HttpSettings = HttpSettings()
    history: HistorySettings = HistorySettings()
    limits: LimitsSettings = LimitsSettings()


def load_settings(**sections: Mapping[str, Any]) -> Settings:
    """Return the settings of this process: arguments win over the environment, and that over the file.

    An argument that is None was not given. Raises :class:`SettingsError`.
    """
    arguments = {
        section: {name: value for name, value in values.items() if value is not None}
        for section, values in sections.items()
    }
    chosen: dict[str, Any] = {}
    for source in (_from_file(os.environ.get(CONFIG_VARIABLE)), _from_environment(os.environ), arguments):
        for section, values in source.items():
            whole = isinstance(values, Mapping)
            chosen[section] = {**chosen.get(section, {}), **values} if whole else values
    try:
        return Settings.model_validate(chosen)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors())
        raise SettingsError(f"wrong setting: {wrong}") from None


def _from_file(name: str | None) -> Mapping[str, Any]:
    """Return the TOML file's content, empty without a name; raise :class:`ConfigMissing`."""
    if name is None:
        return {}
    try:
        text = Path(name).read_text()
    except OSError as error:
        raise ConfigMissing(f"{CONFIG_VARIABLE} names {name}, which can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigMissing(f"{CONFIG_VARIABLE} names {name}, which is no text") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigMissing(f"{CONFIG_VARIABLE} names {name}, which is no TOML: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """Turn ``SILT_HTTP__PORT=8080`` into ``{"http": {"port": "8080"}}``; raise :class:`UnknownSetting`."""
    chosen: dict[str, dict[str, str]] = {}
    unknown: list[str] = []
    for variable, value in given_variables(environment):
        section, _, name = variable.removeprefix(PREFIX).lower().partition("__")
        if name in _names(section):
            chosen.setdefault(section, {})[name] = value
        else:
            unknown.append(variable)
    if unknown:
        raise UnknownSetting(f"no such setting: {', '.join(unknown)}")
    return chosen


def _names(section: str) -> Collection[str]:
    """Return the names of a section's settings; empty when there is no such section."""
    field = Settings.model_fields.get(section)
    model = None if field is None else field.annotation
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else ()
