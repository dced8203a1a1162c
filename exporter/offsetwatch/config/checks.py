"""Checks between settings of the configuration and of the web config files that it names.

They work on the raw document, so that these mistakes are reported together with those of the
schema. Values of the wrong shape are ignored here, since they are reported already.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from offsetwatch.config.document import (
    as_mapping,
    check_cluster_name,
    check_exclusive,
    iterate_mappings,
)
from offsetwatch.config.files import (
    describe_file_error,
    parse_tokens,
    read_private_file,
    read_secret,
)
from offsetwatch.config.schema import web
from offsetwatch.config.schema.remediation import (
    BlastRadiusConfig,
    KafkaJournal,
    QuarantineConfig,
    SkipBudgetsConfig,
    is_unsafe_sink,
)
from offsetwatch.config.schema.root import NotifyConfig
from offsetwatch.config.schema.types import is_loopback, is_match_all
from offsetwatch.config.schema.web import WebConfig
from offsetwatch.config.source_checks import check_sources
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import parse_duration

_DEFAULT_BUDGETS = SkipBudgetsConfig().model_dump()
_DEFAULT_BLAST = BlastRadiusConfig().model_dump()
_DEFAULT_QUARANTINE_TOPIC = QuarantineConfig.model_fields["topic"].default
_DEFAULT_JOURNAL = {name: field.default for name, field in KafkaJournal.model_fields.items()}
_BUDGET_ORDER = (
    ("connector_hour", "connector_day"),
    ("connector_day", "connector_week"),
    ("fleet_hour", "fleet_day"),
    ("connector_hour", "fleet_hour"),
    ("connector_day", "fleet_day"),
)


def check_remedy(document: dict[Any, Any]) -> Iterator[str]:
    """Yield every contradiction, each with its path."""
    remedy = as_mapping(document.get("remedy"))
    names = _list_connect_names(document)
    for path, rule in iterate_mappings(remedy.get("auto"), "remedy.auto"):
        yield from check_cluster_name(
            rule.get("connect"), names, f"{path}.connect", under="connect"
        )
        yield from _check_selectors(path, rule)
    quarantine = as_mapping(remedy.get("quarantine"))
    kafkas = [str(name) for name in as_mapping(document.get("kafka"))]
    yield from check_cluster_name(quarantine.get("kafka"), kafkas, "remedy.quarantine.kafka")
    journal = as_mapping(remedy.get("journal"))
    yield from check_cluster_name(journal.get("kafka"), kafkas, "remedy.journal.kafka")
    yield from _check_journal(journal, quarantine)
    safe_sinks = remedy.get("skip_safe_sinks")
    for number, name in enumerate(safe_sinks if isinstance(safe_sinks, list) else ()):
        if isinstance(name, str) and is_unsafe_sink(name):
            yield (
                f"remedy.skip_safe_sinks[{number}]: known to keep its position elsewhere, or to "
                "commit before it has written"
            )
    # A lower limit of skips holds for a longer period, or for all connectors: never reached.
    yield from _check_order(
        "remedy.budgets", remedy.get("budgets"), _DEFAULT_BUDGETS, _BUDGET_ORDER
    )
    blast_order = (("per_connect", "total"),)
    yield from _check_order("remedy.blast", remedy.get("blast"), _DEFAULT_BLAST, blast_order)
    maintenance = as_mapping(remedy.get("maintenance"))
    for kind in ("deny", "only_in"):
        for path, window in iterate_mappings(maintenance.get(kind), f"remedy.maintenance.{kind}"):
            if "start" in window and window.get("start") == window.get("end"):
                yield f"{path}: start and end are the same"


def _check_selectors(path: str, rule: dict[Any, Any]) -> Iterator[str]:
    selectors = rule.get("connectors")
    if rule.get("i_understand") is True or not isinstance(selectors, list):
        return
    for number, selector in enumerate(selectors):
        if isinstance(selector, str) and selector and is_match_all(selector):
            yield (
                f"{path}.connectors[{number}]: means every connector of the cluster; if that is "
                "meant, set i_understand: true"
            )


def _check_journal(journal: dict[Any, Any], quarantine: dict[Any, Any]) -> Iterator[str]:
    """Yield mistakes in the settings that replicas share."""
    if not journal:
        return
    if quarantine.get("kafka") is None:
        yield (
            "remedy.quarantine.kafka: with remedy.journal, name the cluster of a topic: of copies "
            "in files under state_dir another replica has none"
        )
    elif (quarantine.get("kafka"), quarantine.get("topic", _DEFAULT_QUARANTINE_TOPIC)) == (
        journal.get("kafka"),
        journal.get("topic", _DEFAULT_JOURNAL["topic"]),
    ):
        yield "remedy.journal.topic: the quarantine's is another one"
    order = (("min_insync_replicas", "replication_factor"),)
    yield from _check_order("remedy.journal", journal, _DEFAULT_JOURNAL, order)


def _check_order(
    path: str,
    section: object,
    defaults: Mapping[str, Any],
    order: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """Yield each pair of settings in which the first number is more than the second."""
    settings = as_mapping(section)
    for lower, upper in order:
        least, most = (settings.get(name, defaults[name]) for name in (lower, upper))
        if _is_number(least) and _is_number(most) and least > most:
            yield f"{path}: {lower} is more than {upper}"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_FILE_KEY: Final = "web_config_file"


def check_web_configs(document: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield every mistake in these files, each with the key that names the file."""
    yield from _read_web_config(document.get(_FILE_KEY), folder, _FILE_KEY)[1]
    control = as_mapping(document.get("control"))
    path = f"control.{_FILE_KEY}"
    web, mistakes = _read_web_config(control.get(_FILE_KEY), folder, path)
    yield from mistakes
    if web is not None:
        yield from _check_control(control, web, path)


def _read_web_config(
    named: object, folder: Path, path: str
) -> tuple[WebConfig | None, tuple[str, ...]]:
    try:
        if isinstance(named, str) and (folder / named).is_file():
            return web.load_web_config((folder / named).absolute()), ()
    except ConfigError as exc:
        return None, tuple(f"{path}: {mistake}" for mistake in exc.mistakes)
    except OSError:
        pass  # such as a name that is too long: a mistake of its own
    return None, ()


def _check_control(control: dict[Any, Any], web: WebConfig, path: str) -> Iterator[str]:
    tls = web.tls_server_config
    listen = control.get("listen")
    if tls is None and isinstance(listen, str) and not is_loopback(listen):
        yield f"{path}: tls_server_config is required to listen on anything but loopback"
    if control.get("clients") and not (tls is not None and tls.verifies):
        yield f"{path}: verifies no certificates, so control.clients cannot authenticate"
    for user_path, user in iterate_mappings(control.get("users"), "control.users"):
        name = user.get("user")
        if isinstance(name, str) and name not in web.basic_auth_users:
            yield f"{user_path}.user: has no password under basic_auth_users"


_TOKEN_KEYS: Final = ("token_sha256", "token_file")
_HOOK_ROLE: Final = "hook"


def check_control(document: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield every contradiction under control:, each with its path."""
    if document.get("control") is None:
        return
    control = as_mapping(document["control"])
    listen = control.get("listen")
    web = control.get("web_config_file") is not None
    if not web and isinstance(listen, str) and not is_loopback(listen):
        yield (
            "control.listen: a web_config_file with TLS is required to listen on anything but "
            "loopback"
        )
    if isinstance(listen, str) and listen == document.get("listen"):
        yield "control.listen: metrics are served there already"
    tokens = tuple(iterate_mappings(control.get("tokens"), "control.tokens"))
    clients = tuple(iterate_mappings(control.get("clients"), "control.clients"))
    users = tuple(iterate_mappings(control.get("users"), "control.users"))
    if not tokens and not clients and not users:
        yield "control: without tokens, clients or users no request is accepted"
    if users and not web:
        yield "control.users: control.web_config_file is required: it has the passwords"
    if clients and not web:
        yield "control.clients: control.web_config_file is required: it has client_ca_file"
    yield from _check_principals((*tokens, *clients, *users), _list_connect_names(document))
    yield from _check_tokens(tokens, folder)
    yield from _check_duplicates(clients, "san")
    yield from _check_duplicates(users, "user")


def _check_principals(
    principals: tuple[tuple[str, dict[Any, Any]], ...], connects: list[str]
) -> Iterator[str]:
    roles: dict[str, object] = {}
    for path, principal in principals:
        clusters = principal.get("connect")
        for number, cluster in enumerate(clusters if isinstance(clusters, list) else ()):
            yield from check_cluster_name(
                cluster, connects, f"{path}.connect[{number}]", under="connect"
            )
        scope = principal.get("connectors")
        if isinstance(scope, dict) and not scope.get("include") and not scope.get("exclude"):
            yield f"{path}.connectors: names none; for all of them leave it out"
        name, role = principal.get("name"), principal.get("role")
        if not isinstance(name, str):
            continue
        if name in roles:
            other = roles[name] != role and _HOOK_ROLE in (role, roles[name])
            hint = "; a client of role hook has no other role" if other else ""
            yield f'{path}.name: "{name}" is used twice{hint}'
        roles.setdefault(name, role)


def _check_tokens(tokens: tuple[tuple[str, dict[Any, Any]], ...], folder: Path) -> Iterator[str]:
    holders: dict[str, str] = {}
    for path, token in tokens:
        methods = [key for key in _TOKEN_KEYS if token.get(key) is not None]
        if len(methods) != 1:
            what = "not both" if methods else "one of them"
            yield f"{path}: give token_sha256 or token_file, {what}"
        for sha256 in _read_token_hashes(token, folder):
            if holders.setdefault(sha256, path) != path:
                yield f"{path}: has the same token as {holders[sha256]}"


def _read_token_hashes(token: dict[Any, Any], folder: Path) -> Iterator[str]:
    if isinstance(token.get("token_sha256"), str):
        yield token["token_sha256"]
    if not isinstance(token.get("token_file"), str):
        return
    try:
        hashes = parse_tokens(read_private_file(folder / token["token_file"]))
    except (OSError, ValueError):
        return  # a mistake of its own
    yield from {hashlib.sha256(name.encode()).hexdigest() for name in hashes}


def _list_connect_names(document: dict[str, Any]) -> list[str]:
    connects = iterate_mappings(document.get("connect"), "connect")
    return [entry["name"] for _, entry in connects if isinstance(entry.get("name"), str)]


def _check_duplicates(sections: Iterable[tuple[str, dict[Any, Any]]], key: str) -> Iterator[str]:
    texts: set[str] = set()
    for path, section in sections:
        text = section.get(key)
        if isinstance(text, str) and text in texts:
            yield f"{path}.{key}: used twice"
        texts.add(str(text))


_FILE_SUFFIX = "_file"
_TLS_PROTOCOLS = frozenset({"SSL", "SASL_SSL"})
_SASL_PROTOCOLS = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
# Any other is a mistake of its own.
_PROTOCOLS = frozenset({"PLAINTEXT"}) | _TLS_PROTOCOLS | _SASL_PROTOCOLS
# Those of Java's clients are not among them: `offsetwatch check` says what to write instead.
_SASL_PROPERTY = re.compile(r"sasl\.(mechanisms?|username|password)(_file)?")
_TLS_PROPERTY = re.compile(r"ssl\.(ca|certificate|key)\.(location|pem)(_file)?")
_AUTH_KEYS = ("username", "password", "password_file", "bearer_token", "bearer_token_file")


def check_sections(document: dict[str, Any], folder: Path) -> list[str]:
    """Return every contradiction in the file, each with its path."""
    kafkas = tuple(str(name) for name in as_mapping(document.get("kafka")))
    connects = tuple(iterate_mappings(document.get("connect"), "connect"))
    mistakes: list[str] = []
    names: set[str] = set()
    for path, connect in connects:
        mistakes.extend(check_cluster_name(connect.get("kafka"), kafkas, f"{path}.kafka"))
        name = connect.get("name")
        if isinstance(name, str) and name in names:
            mistakes.append(f'{path}.name: "{name}" is used twice')
        names.add(str(name))
        mistakes.extend(_check_connect(path, connect))
    sections = tuple(section for _, section in connects)
    flows: set[tuple[str, ...]] = set()
    for path, flow in iterate_mappings(document.get("flows"), "flows"):
        mistakes.extend(_check_flow(path, flow, kafkas, sections))
        key = tuple(str(flow.get(part)) for part in ("source", "target", "connect", "connector"))
        if key in flows:
            mistakes.append(f"{path}: the same flow is given twice")
        flows.add(key)
    for name, kafka in as_mapping(document.get("kafka")).items():
        properties = as_mapping(as_mapping(kafka).get("properties"))
        if "bootstrap.servers" in properties:
            mistakes.append(f'kafka.{name}.properties: use "bootstrap", not bootstrap.servers')
        mistakes.extend(check_exclusive(f"kafka.{name}.properties", properties))
        mistakes.extend(_check_unused_properties(f"kafka.{name}", as_mapping(kafka), properties))
    mistakes.extend(check_sources(document, folder, _list_connect_names(document)))
    mistakes.extend(_check_notify(as_mapping(document.get("notify"))))
    mistakes.extend(_check_own_access(document))
    mistakes.extend(check_web_configs(document, folder))
    mistakes.extend(check_control(document, folder))
    mistakes.extend(check_remedy(document))
    return mistakes


def _check_unused_properties(
    path: str, kafka: dict[Any, Any], properties: dict[Any, Any]
) -> Iterator[str]:
    """Yield properties that librdkafka accepts and ignores.

    The brokers would refuse the client later.
    """
    names = sorted(name for name in properties if isinstance(name, str))
    protocol = str(properties.get("security.protocol", "plaintext")).upper()
    for pattern, able in ((_SASL_PROPERTY, _SASL_PROTOCOLS), (_TLS_PROPERTY, _TLS_PROTOCOLS)):
        unused = [name for name in names if pattern.fullmatch(name)]
        if unused and protocol in _PROTOCOLS - able:
            yield (
                f"{path}.properties.{unused[0]}: of no use without security.protocol: "
                f"{' or '.join(sorted(able))}"
            )
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms"))
    if mechanism == "OAUTHBEARER" and kafka.get("oauth_hook") is None:
        method = str(properties.get("sasl.oauthbearer.method", "default")).lower()
        if method == "default" and "sasl.oauthbearer.config" not in names:
            yield (
                f"{path}: OAUTHBEARER needs a token: give oauth_hook, or "
                "sasl.oauthbearer.method: oidc with sasl.oauthbearer.token.endpoint.url"
            )
    certificate = f"{path}.properties.ssl.certificate.location"
    if "ssl.certificate.location" in names and not {"ssl.key.location", "ssl.key.pem"} & set(names):
        yield f"{certificate}: of no use without ssl.key.location"


def _check_own_access(document: dict[Any, Any]) -> Iterator[str]:
    """Yield mistakes in the credentials of our commands for our own listener."""
    own = as_mapping(document.get("own_access"))
    yield from _check_server_access("own_access", own)
    auth = as_mapping(own.get("auth"))
    if any(auth.get(name) is not None for name in ("bearer_token", "bearer_token_file")):
        yield "own_access.auth: a username and its password, as web_config_file knows no tokens"
    if own and document.get("web_config_file") is None:
        yield "own_access: of no use without web_config_file"


def fill_from_files(document: dict[str, Any], folder: Path, mistakes: list[str]) -> dict[str, Any]:
    """Return the document with the secret files of Kafka properties filled in.

    Each property KEY_file of a Kafka cluster is replaced by KEY and the file's text.
    """
    kafkas = document.get("kafka")
    if not isinstance(kafkas, dict):
        return document
    filled = {
        name: {
            **kafka,
            "properties": _read_property_files(name, kafka["properties"], folder, mistakes),
        }
        if isinstance(kafka, dict) and isinstance(kafka.get("properties"), dict)
        else kafka
        for name, kafka in kafkas.items()
    }
    return {**document, "kafka": filled}


def _read_property_files(
    kafka: object, properties: dict[Any, Any], folder: Path, mistakes: list[str]
) -> dict[Any, Any]:
    filled: dict[Any, Any] = {}
    for name, value in properties.items():
        if not (isinstance(name, str) and name.endswith(_FILE_SUFFIX) and isinstance(value, str)):
            filled[name] = value
            continue
        try:
            filled[name.removesuffix(_FILE_SUFFIX)] = read_secret(folder / value)
        except (OSError, ValueError) as exc:
            mistakes.append(f"kafka.{kafka}.properties.{name}: {describe_file_error(exc)}")
    return filled


def _check_connect(path: str, connect: dict[Any, Any]) -> Iterator[str]:
    if connect.get("url") is not None and connect.get("urls") is not None:
        yield f"{path}: give url or urls, not both"
    if not _has_url(connect) and connect.get("offsets_topic") is None:
        yield f"{path}: without url, offsets_topic is required"
    if connect.get("kafka") is None:
        if not _has_url(connect):
            yield f"{path}: without kafka, url is required"
        for name in ("offsets_topic", "config_topic", "status_topic"):
            if connect.get(name) is not None:
                yield f"{path}.{name}: of no use without kafka"
    yield from _check_server_access(path, connect)


def _check_notify(notify: dict[Any, Any]) -> Iterator[str]:
    lasts_s, resend_s = (_parse_seconds(notify, name) for name in ("lasts_s", "resend_s"))
    if lasts_s is not None and resend_s is not None and lasts_s <= resend_s:
        yield (
            "notify.lasts_s: must be longer than notify.resend_s, or an Alertmanager resolves what "
            "still fires"
        )
    for kind, key in (("alertmanagers", "url"), ("webhooks", "name")):
        texts: set[str] = set()
        for path, receiver in iterate_mappings(notify.get(kind), f"notify.{kind}"):
            text = receiver.get(key)
            if isinstance(text, str) and text in texts:
                yield f"{path}.{key}: used twice"
            texts.add(str(text))
            yield from _check_server_access(path, receiver)
            if kind == "webhooks":
                if "url" not in receiver and "url_file" not in receiver:
                    yield f"{path}: url or url_file is required"
                yield from check_exclusive(path, receiver)


def _parse_seconds(notify: dict[Any, Any], name: str) -> float | None:
    """Return a duration in seconds, or its default; None for an invalid one.

    An invalid duration is reported by the schema.
    """
    value = notify.get(name, NotifyConfig.model_fields[name].default)
    try:
        return parse_duration(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _check_server_access(path: str, server: dict[Any, Any]) -> Iterator[str]:
    """Yield mistakes in the credentials and TLS settings for a server."""
    auth = server.get("auth")
    if isinstance(auth, dict):
        yield from _check_auth(f"{path}.auth", auth)
    tls = as_mapping(server.get("tls"))
    yield from check_exclusive(f"{path}.tls", tls)
    several = server.get("urls")
    urls = [server.get("url"), *(several if isinstance(several, list) else ())]
    lowered = [url.lower() for url in urls if isinstance(url, str)]
    if tls and lowered and all(url.startswith("http:") for url in lowered):
        yield f"{path}.tls: of no use, as the address begins with http: and not with https:"
    if "cert_file" not in tls:
        for name in ("key_file", "key_password", "key_password_file"):
            if name in tls:
                yield f"{path}.tls: {name} is of no use without cert_file"


def _check_auth(path: str, auth: dict[Any, Any]) -> Iterator[str]:
    methods = [name for name in _AUTH_KEYS if auth.get(name) is not None]
    basic = [name for name in methods if not name.startswith("bearer")]
    if basic and len(basic) < len(methods):
        yield f"{path}: give a username and its password or a bearer token, not both"
    elif not methods:
        yield f"{path}: give username and password, or bearer_token (each secret also as _file)"
    elif basic == ["username"]:
        yield f"{path}: password or password_file is required with username"
    elif basic and "username" not in basic:
        yield f"{path}: username is required with a password"
    yield from check_exclusive(path, auth)


def _check_flow(
    path: str, flow: dict[Any, Any], kafkas: Iterable[str], connects: tuple[dict[Any, Any], ...]
) -> Iterator[str]:
    for end in ("upstream", "downstream"):
        yield from check_cluster_name(flow.get(end), kafkas, f"{path}.{end}")
    everything = as_mapping(flow.get("copies")).get("*")
    if isinstance(everything, str) and "{topic}" not in everything:
        yield (
            f'{path}.copies.*: "{everything}" would have the copies of all topics, and no record '
            "says of which: use {topic}"
        )
    syncs = as_mapping(flow.get("offset_syncs"))
    yield from check_cluster_name(syncs.get("kafka"), kafkas, f"{path}.offset_syncs.kafka")
    named = flow.get("connect")
    if named is not None:
        names = (connect["name"] for connect in connects if isinstance(connect.get("name"), str))
        yield from check_cluster_name(named, names, f"{path}.connect", under="connect")
        return
    downstream = flow.get("downstream")
    able = [
        connect
        for connect in connects
        if connect.get("kafka") == downstream and not _has_url(connect)
    ]
    if len(able) != 1 and isinstance(downstream, str):
        problem = f"{len(able)} entries without url are" if able else "no entry without url is"
        yield (f'{path}.connect: required: under connect, {problem} on "{downstream}"')


def _has_url(connect: dict[Any, Any]) -> bool:
    return connect.get("url") is not None or connect.get("urls") is not None
