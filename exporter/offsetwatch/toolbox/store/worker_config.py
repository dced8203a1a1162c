"""A worker's properties file: its offset storage, and the settings of its Kafka clients.

Three kinds of process have such a file: a distributed worker, a standalone worker, and a dedicated
MirrorMaker, whose every flow is a distributed worker on the flow's target (MirrorMakerConfig).
Raises ConfigError; no mistake repeats a value that could be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import ValidationError

from offsetwatch.addresses import normalize_address
from offsetwatch.config import Kafka
from offsetwatch.config.files import describe_file_error
from offsetwatch.config.properties import LOGIN_MODULES, PEM_SETTINGS, parse_login, parse_properties
from offsetwatch.decode.java.hash_map import trim_blanks, values_of
from offsetwatch.errors import ConfigError

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
# Connect's own defaults.
_FLUSH_MS: Final = {"offset.flush.interval.ms": "60000", "offset.flush.timeout.ms": "5000"}
_LISTENERS: Final = "http://:8083"
_FILE: Final = "offset.storage.file.filename"
_TOPIC: Final = "offset.storage.topic"
_CONFIG_TOPIC: Final = "config.storage.topic"
_PLACEHOLDER = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*)\}")
_PROVIDERS: Final = "org.apache.kafka.common.config.provider."
_FILE_PROVIDER: Final = _PROVIDERS + "FileConfigProvider"
_DIRECTORY_PROVIDER: Final = _PROVIDERS + "DirectoryConfigProvider"
_UNRESOLVED_NOTE: Final = "its config provider does not run here, or has no such value"
_KAFKA_OPTION_ADVICE: Final = "name a cluster of the configuration instead, with --kafka"
# They say how a connection is made, which librdkafka has its own good answers to, not to whom.
_TUNING: Final = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
_STORES: Final = ("ssl.keystore.", "ssl.truststore.")
_TRANSLATED_SETTINGS: Final = frozenset(
    {"ssl.endpoint.identification.algorithm", "ssl.key.password", "sasl.mechanism"}
)


class OffsetEnvelopes(NamedTuple):
    """Settings that allow offsets to be in envelopes, `{"schema":…,"payload":…}`.

    Workers before 3.0 wrote envelopes if so configured; newer ones ignore these settings (KIP-738).
    The records in the topic decide.
    """

    keys: bool = False
    values: bool = False


@dataclass(frozen=True, slots=True)
class DistributedStorage:
    """The storage of a distributed worker, or of one flow of a dedicated MirrorMaker.

    client          librdkafka's properties; None where a configured cluster is to be used
    offsets_topic   the worker's; connectors may have topics of their own (KIP-618)
    group           the group that all its workers are members of
    flush_s         a running worker would have committed within this time
    flow            the aliases of source and target, of a dedicated MirrorMaker
    """

    path: Path
    bootstrap: str
    client: Mapping[str, str] | None = field(repr=False)
    offsets_topic: str
    config_topic: str
    group: str
    flush_s: float
    envelopes: OffsetEnvelopes
    flow: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class StandaloneStorage:
    """The storage of a standalone worker: a file on this machine.

    urls    addresses of its REST API while it runs
    """

    path: Path
    offsets_file: Path
    urls: tuple[str, ...]
    envelopes: OffsetEnvelopes


class WorkerConfigError(Exception):
    """Mistakes in a worker's file; each names a setting, and never its value."""

    def __init__(self, *mistakes: str) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


class UntranslatableSettings(WorkerConfigError):
    """Client settings without an equivalent in librdkafka."""


def read_worker_config(
    path: Path, *, flow: str | None, translate: bool
) -> DistributedStorage | StandaloneStorage:
    """Read the storage from a worker's file. `flow` is `A->B`.

    Without `translate` the file's client settings are ignored, because those of a configured
    cluster are used.
    """
    settings = _read_settings(path)
    try:
        if "clusters" in settings:
            return _parse_mirror_maker(path, settings, flow, translate=translate)
        if flow is not None:
            raise WorkerConfigError(
                "clusters: missing, so that this is no MirrorMaker and has no flows"
            )
        if _FILE in settings and _TOPIC in settings:
            raise WorkerConfigError(
                f"{_FILE} and {_TOPIC}: a worker keeps its offsets in one of them"
            )
        if _FILE in settings:
            return _parse_standalone(path, settings)
        return _parse_distributed(path, settings, translate=translate)
    except WorkerConfigError as exc:
        raise ConfigError(tuple(f"{path}: {mistake}" for mistake in exc.mistakes)) from None


def read_mirror_clusters(path: Path) -> dict[str, Kafka]:
    """Read the Kafka clusters of a MirrorMaker's file, by alias; a worker's file has none.

    Clusters whose settings have no equivalent in librdkafka are left out.
    """
    settings = _read_settings(path)
    clusters = {}
    for alias in _parse_aliases(settings):
        with suppress(UntranslatableSettings, ValidationError):
            client = translate_client_settings(_select_alias_settings(settings, alias))
            bootstrap = client.pop("bootstrap.servers")
            clusters[alias] = Kafka(bootstrap=bootstrap, properties=client)
    return clusters


def has_flows(path: Path) -> bool:
    """Return whether this is a MirrorMaker's file, whose flows have storages of their own."""
    return "clusters" in _read_settings(path)


def _read_settings(path: Path) -> dict[str, str]:
    try:
        return resolve_placeholders(parse_properties(path.read_bytes()))
    except OSError as exc:
        raise ConfigError((f"{path}: {describe_file_error(exc)}",)) from exc


def _parse_standalone(path: Path, settings: Mapping[str, str]) -> StandaloneStorage:
    # Relative to where the worker is started; nobody tells where that is, so it is where we are.
    file = Path(_require_setting(settings, _FILE)).absolute().resolve()
    return StandaloneStorage(path, file, _parse_urls(settings), _parse_envelopes(settings))


def _parse_urls(settings: Mapping[str, str]) -> tuple[str, ...]:
    listeners = settings.get("listeners") or _LISTENERS
    if "listeners" not in settings and "rest.port" in settings:  # before 3.0
        old = [trim_blanks(settings.get(name, "")) for name in ("rest.host.name", "rest.port")]
        listeners = "http://" + ":".join(old)
    addresses = []
    for listener in values_of(listeners):
        parts = urlsplit(listener)
        try:
            port = parts.port
        except ValueError:
            port = None
        if port is None or parts.scheme.lower() not in {"http", "https"}:
            raise WorkerConfigError(f"listeners: {listener} is no http://host:port")
        anywhere = parts.hostname in {None, "", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
        host = "127.0.0.1" if anywhere else str(parts.hostname)
        host = f"[{host}]" if ":" in host else host
        addresses.append(f"{parts.scheme.lower()}://{host}:{port}")
    return tuple(addresses)


def _parse_distributed(
    path: Path, settings: Mapping[str, str], *, translate: bool
) -> DistributedStorage:
    missing = [
        f"{name}: missing; so this is neither a worker's nor a MirrorMaker's file"
        for name in ("group.id", _TOPIC, _CONFIG_TOPIC)
        if not settings.get(name)
    ]
    if missing:
        raise WorkerConfigError(*missing)
    return _build_distributed(path, settings, translate=translate)


def _build_distributed(
    path: Path,
    settings: Mapping[str, str],
    *,
    translate: bool,
    flow: tuple[str, str] | None = None,
) -> DistributedStorage:
    source = "" if flow is None else flow[0]
    defaults = {  # of a dedicated MirrorMaker
        _TOPIC: f"mm2-offsets.{source}.internal",
        _CONFIG_TOPIC: f"mm2-configs.{source}.internal",
        "group.id": f"{source}-mm2",
    }
    merged = settings if flow is None else {**defaults, **settings}
    return DistributedStorage(
        path=path,
        bootstrap=",".join(values_of(settings.get("bootstrap.servers", ""))),
        client=translate_client_settings(settings) if translate else None,
        offsets_topic=_require_setting(merged, _TOPIC),
        config_topic=_require_setting(merged, _CONFIG_TOPIC),
        group=_require_setting(merged, "group.id"),
        flush_s=_compute_flush_s(settings),
        envelopes=_parse_envelopes(settings),
        flow=flow,
    )


def _parse_mirror_maker(
    path: Path, settings: Mapping[str, str], requested: str | None, *, translate: bool
) -> DistributedStorage:
    flow = _select_flow(settings, requested)
    # Its own order: what stands under an alias wins for clients, what stands above for storage.
    storage = {
        name: value
        for name, value in settings.items()
        if name.startswith(("offset.storage", "config.storage"))
    }
    worker = {**_select_alias_settings(settings, flow[1]), **storage}
    return _build_distributed(path, worker, translate=translate, flow=flow)


def _select_alias_settings(settings: Mapping[str, str], alias: str) -> dict[str, str]:
    prefix = f"{alias}."
    stripped = {
        name.removeprefix(prefix): value
        for name, value in settings.items()
        if name.startswith(prefix)
    }
    return {**_select_client_settings(settings), **stripped}


def _select_client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in settings.items()
        if name in {"bootstrap.servers", "security.protocol"} or name.startswith(("ssl.", "sasl."))
    }


def _select_flow(settings: Mapping[str, str], requested: str | None) -> tuple[str, str]:
    """Return the requested flow, or the only one that is enabled."""
    aliases = _parse_aliases(settings)
    flows = {f"{a}->{b}": (a, b) for a, b in permutations(aliases, 2)}
    if requested is not None:
        if requested not in flows:
            raise WorkerConfigError(f"clusters: no flow {requested} between {', '.join(aliases)}")
        return flows[requested]
    # Boolean.parseBoolean of the text as it is written: to it, blanks behind make a truth false.
    enabled = [name for name in flows if settings.get(f"{name}.enabled", "").lower() == "true"]
    if len(enabled) != 1:
        several = f"several flows are enabled, {', '.join(enabled)}" if enabled else "no flow is"
        raise WorkerConfigError(
            f"clusters: {several}{'' if enabled else ' enabled'}; name one with --flow"
        )
    return flows[enabled[0]]


def _parse_aliases(settings: Mapping[str, str]) -> tuple[str, ...]:
    aliases = values_of(settings.get("clusters", ""))
    return tuple(dict.fromkeys(alias for alias in aliases if alias))


def _require_setting(settings: Mapping[str, str], name: str) -> str:
    value = settings.get(name, "").strip()
    if not value:
        raise WorkerConfigError(f"{name}: missing")
    if _PLACEHOLDER.search(value):
        raise WorkerConfigError(f"{name}: {_UNRESOLVED_NOTE}")
    return value


def _compute_flush_s(settings: Mapping[str, str]) -> float:
    intervals = [settings.get(name, default).strip() for name, default in _FLUSH_MS.items()]
    if not all(number.isdecimal() for number in intervals):
        raise WorkerConfigError(f"{', '.join(_FLUSH_MS)}: not both numbers")
    return sum(map(int, intervals)) / 1000.0


def _parse_envelopes(settings: Mapping[str, str]) -> OffsetEnvelopes:
    """Read the envelope settings. Raises for an internal converter that cannot be read.

    Only full class names occur: `internal.key.converter` had no aliases in practice.
    """
    envelopes, mistakes = [], []
    for what in ("internal.key.converter", "internal.value.converter"):
        name = settings.get(what, "").strip()
        if name and name.rpartition(".")[2] not in {"JsonConverter", "Json"}:
            mistakes.append(
                f"{what}: {name}, where only {JSON_CONVERTER} can be read. Connect 3.0 and newer "
                "ignore this setting; take it out of the file if the worker is one of them"
            )
        schemas = settings.get(f"{what}.schemas.enable", "true" if name else "false")
        envelopes.append(schemas.strip().lower() == "true")
    if mistakes:
        raise WorkerConfigError(*mistakes)
    return OffsetEnvelopes(*envelopes)


# --- settings of Kafka clients -------------------------------------------------------------------


def resolve_placeholders(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with the values that Kafka's own config providers read from files.

    KIP-297 defines the providers. Placeholders of other providers stay, and so do missing values:
    the worker's environment is not available here.
    """
    names = values_of(settings.get("config.providers", ""))
    classes = {
        name: trim_blanks(settings.get(f"config.providers.{name}.class", "")) for name in names
    }
    return {
        name: _PLACEHOLDER.sub(lambda match: _fetch_value(match, classes), value)
        for name, value in settings.items()
    }


def _fetch_value(match: re.Match[str], classes: Mapping[str, str]) -> str:
    kind, path, key = classes.get(match[1], ""), Path(match[2] or ""), match[3]
    try:
        if kind == _FILE_PROVIDER:
            return parse_properties(path.read_bytes())[key]
        if kind == _DIRECTORY_PROVIDER and key in {file.name for file in path.iterdir()}:
            return (path / key).read_text()
    except (OSError, KeyError, UnicodeDecodeError):
        pass
    return match[0]


def translate_client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate un-prefixed Java client settings to librdkafka properties.

    Raises UntranslatableSettings with every setting that has no equivalent.
    """
    client_settings = {
        name: trim_blanks(value) for name, value in _select_client_settings(settings).items()
    }
    unresolved = sorted(
        name for name, value in client_settings.items() if _PLACEHOLDER.search(value)
    )
    mistakes = [f"{name}: {_UNRESOLVED_NOTE}" for name in unresolved]
    for name in unresolved:
        del client_settings[name]
    protocol = client_settings.get("security.protocol", "PLAINTEXT").upper()
    # Java's clients take a protocol in front, and an IPv6 host without brackets.
    servers = (
        server.rpartition("://")[2]
        for server in values_of(client_settings.get("bootstrap.servers", ""))
    )
    bootstrap = ",".join(normalize_address(server) for server in servers if server)
    properties = (
        {"bootstrap.servers": bootstrap} if client_settings.get("bootstrap.servers") else {}
    )
    missing = [] if properties or unresolved else ["bootstrap.servers: missing"]
    properties["security.protocol"] = protocol.lower()
    if protocol.endswith("SSL"):
        properties |= _translate_tls(client_settings, mistakes)
    if protocol.startswith("SASL"):
        properties |= _translate_sasl(client_settings, mistakes)
    if missing or mistakes:
        advised = (f"{mistake}; {_KAFKA_OPTION_ADVICE}" for mistake in mistakes)
        raise UntranslatableSettings(*missing, *advised)
    return properties


def _translate_tls(settings: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https")
    properties = {"ssl.endpoint.identification.algorithm": algorithm.lower() or "none"}
    if "ssl.key.password" in settings:
        properties["ssl.key.password"] = settings["ssl.key.password"]
    properties |= _translate_truststore(settings, mistakes)
    properties |= _translate_keystore(settings, mistakes)
    mistakes += (
        f"{name}: has no counterpart here"
        for name in sorted(settings)
        if name.startswith("ssl.")
        and not name.startswith(_STORES)
        and name not in _TUNING | _TRANSLATED_SETTINGS
        and settings[name]
    )
    return properties


def _translate_truststore(settings: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    inline, file = settings.get(PEM_SETTINGS["ssl.ca"]), settings.get("ssl.truststore.location")
    kind = settings.get("ssl.truststore.type", "JKS").upper()
    if not inline and not file:
        return {}  # the authorities of the JVM, and here those of the operating system
    if kind != "PEM":
        mistakes.append(f"ssl.truststore.type: {_describe_store_type(kind)}, where PEM can be read")
        return {}
    return {"ssl.ca.pem": inline} if inline else {"ssl.ca.location": str(file)}


def _translate_keystore(settings: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    chain, key = (
        settings.get(PEM_SETTINGS["ssl.certificate"]),
        settings.get(PEM_SETTINGS["ssl.key"]),
    )
    file, kind = (
        settings.get("ssl.keystore.location"),
        settings.get("ssl.keystore.type", "JKS").upper(),
    )
    if not chain and not key and not file:
        return {}
    if kind == "PKCS12" and file:
        password = settings.get("ssl.keystore.password", "")
        return {"ssl.keystore.location": file, "ssl.keystore.password": password}
    if kind != "PEM":
        mistakes.append(f"ssl.keystore.type: {_describe_store_type(kind)}, where PEM can be read")
        return {}
    if file:  # one file with the key and the chain
        return {"ssl.certificate.location": file, "ssl.key.location": file}
    return {"ssl.certificate.pem": chain or "", "ssl.key.pem": key or ""}


def _describe_store_type(kind: str) -> str:
    return kind if kind in {"JKS", "PKCS12", "BCFKS"} else "of another kind"


def _translate_sasl(settings: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
    module = LOGIN_MODULES.get(mechanism)
    if module is None:
        known = ", ".join(LOGIN_MODULES)
        mistakes.append(f"sasl.mechanism: none of {known}")
        return {}
    parsed, options = parse_login(settings.get("sasl.jaas.config", "")) or ("", {})
    if parsed != module or not {"username", "password"} <= options.keys() or "tokenauth" in options:
        mistakes.append(f"sasl.jaas.config: not one login by {module} with username and password")
        return {}
    if any(name.startswith("sasl.") and "callback" in name and settings[name] for name in settings):
        mistakes.append("sasl.*.callback.handler.class: runs in Java")
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": options["username"],
        "sasl.password": options["password"],
    }
