"""What one section cannot know of another, and the secrets that Kafka's properties take from files.

Works on the raw document, so that these mistakes are reported together with those of shape; what
has the wrong shape is passed over here, as it is a mistake already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from offsetwatch.config.checks.control import control_checks
from offsetwatch.config.checks.remediation import remedy_checks
from offsetwatch.config.checks.web import web_checks
from offsetwatch.config.durations import parse_duration
from offsetwatch.config.files import problem_with, read_secret
from offsetwatch.config.raw_document import both, known, mapping, mappings
from offsetwatch.config.schema.root import Notify

_FILE = "_file"
_TLS = frozenset({"SSL", "SASL_SSL"})
_SASL = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
_PROTOCOLS = frozenset({"PLAINTEXT"}) | _TLS | _SASL  # any other is a mistake of its own
# Those of Java's clients are not among them: `offsetwatch check` says what to write instead.
_OF_SASL = re.compile(r"sasl\.(mechanisms?|username|password)(_file)?")
_OF_TLS = re.compile(r"ssl\.(ca|certificate|key)\.(location|pem)(_file)?")
_AUTH = ("username", "password", "password_file", "bearer_token", "bearer_token_file")


def cross_checks(document: dict[str, Any], folder: Path) -> list[str]:
    """Every contradiction in the file, each with its path."""
    kafkas = tuple(str(name) for name in mapping(document.get("kafka")))
    connects = tuple(mappings(document.get("connect"), "connect"))
    mistakes: list[str] = []
    taken: set[str] = set()
    for path, connect in connects:
        mistakes.extend(known(connect.get("kafka"), kafkas, f"{path}.kafka"))
        name = connect.get("name")
        if isinstance(name, str) and name in taken:
            mistakes.append(f'{path}.name: "{name}" is used twice')
        taken.add(str(name))
        mistakes.extend(_connect(path, connect))
    sections = tuple(section for _, section in connects)
    flows: set[tuple[str, ...]] = set()
    for path, flow in mappings(document.get("flows"), "flows"):
        mistakes.extend(_flow(path, flow, kafkas, sections))
        key = tuple(str(flow.get(part)) for part in ("source", "target", "connect", "connector"))
        if key in flows:
            mistakes.append(f"{path}: the same flow is given twice")
        flows.add(key)
    for name, kafka in mapping(document.get("kafka")).items():
        properties = mapping(mapping(kafka).get("properties"))
        if "bootstrap.servers" in properties:
            mistakes.append(f'kafka.{name}.properties: use "bootstrap", not bootstrap.servers')
        mistakes.extend(both(f"kafka.{name}.properties", properties))
        mistakes.extend(_without_effect(f"kafka.{name}", mapping(kafka), properties))
    mistakes.extend(_notify(mapping(document.get("notify"))))
    mistakes.extend(_own_access(document))
    mistakes.extend(web_checks(document, folder))
    mistakes.extend(control_checks(document, folder))
    mistakes.extend(remedy_checks(document))
    return mistakes


def _without_effect(path: str, kafka: dict[Any, Any], properties: dict[Any, Any]) -> Iterator[str]:
    """Properties that librdkafka takes and does not use, so that the brokers refuse us later."""
    names = sorted(name for name in properties if isinstance(name, str))
    protocol = str(properties.get("security.protocol", "plaintext")).upper()
    for pattern, able in ((_OF_SASL, _SASL), (_OF_TLS, _TLS)):
        given = [name for name in names if pattern.fullmatch(name)]
        if given and protocol in _PROTOCOLS - able:
            yield (
                f"{path}.properties.{given[0]}: of no use without security.protocol: "
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


def _own_access(document: dict[Any, Any]) -> Iterator[str]:
    """Who our own commands are to our own listener."""
    own = mapping(document.get("own_access"))
    yield from _access("own_access", own)
    auth = mapping(own.get("auth"))
    if any(auth.get(name) is not None for name in ("bearer_token", "bearer_token_file")):
        yield "own_access.auth: a username and its password, as web_config_file knows no tokens"
    if own and document.get("web_config_file") is None:
        yield "own_access: of no use without web_config_file"


def fill_from_files(document: dict[str, Any], folder: Path, mistakes: list[str]) -> dict[str, Any]:
    """The document with every property KEY_file of a Kafka cluster replaced by KEY and the file's
    text.
    """
    kafkas = document.get("kafka")
    if not isinstance(kafkas, dict):
        return document
    filled = {
        name: {**kafka, "properties": _from_files(name, kafka["properties"], folder, mistakes)}
        if isinstance(kafka, dict) and isinstance(kafka.get("properties"), dict)
        else kafka
        for name, kafka in kafkas.items()
    }
    return {**document, "kafka": filled}


def _from_files(
    kafka: object, properties: dict[Any, Any], folder: Path, mistakes: list[str]
) -> dict[Any, Any]:
    filled: dict[Any, Any] = {}
    for name, value in properties.items():
        if not (isinstance(name, str) and name.endswith(_FILE) and isinstance(value, str)):
            filled[name] = value
            continue
        try:
            filled[name.removesuffix(_FILE)] = read_secret(folder / value)
        except (OSError, ValueError) as exc:
            mistakes.append(f"kafka.{kafka}.properties.{name}: {problem_with(exc)}")
    return filled


def _connect(path: str, connect: dict[Any, Any]) -> Iterator[str]:
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
    yield from _access(path, connect)


def _notify(notify: dict[Any, Any]) -> Iterator[str]:
    lasts_s, resend_s = (_seconds(notify, name) for name in ("lasts_s", "resend_s"))
    if lasts_s is not None and resend_s is not None and lasts_s <= resend_s:
        yield (
            "notify.lasts_s: must be longer than notify.resend_s, or an Alertmanager resolves what "
            "still fires"
        )
    for kind, key in (("alertmanagers", "url"), ("webhooks", "name")):
        taken: set[str] = set()
        for path, receiver in mappings(notify.get(kind), f"notify.{kind}"):
            named = receiver.get(key)
            if isinstance(named, str) and named in taken:
                yield f"{path}.{key}: used twice"
            taken.add(str(named))
            yield from _access(path, receiver)
            if kind == "webhooks":
                if "url" not in receiver and "url_file" not in receiver:
                    yield f"{path}: url or url_file is required"
                yield from both(path, receiver)


def _seconds(notify: dict[Any, Any], name: str) -> float | None:
    """Return a duration, or its default; None for what is none, which is a mistake of its own."""
    value = notify.get(name, Notify.model_fields[name].default)
    try:
        return parse_duration(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _access(path: str, server: dict[Any, Any]) -> Iterator[str]:
    """Who we are to a server, and whom we trust."""
    auth = server.get("auth")
    if isinstance(auth, dict):
        yield from _auth(f"{path}.auth", auth)
    tls = mapping(server.get("tls"))
    yield from both(f"{path}.tls", tls)
    urls = [server.get("url"), *_list(server.get("urls"))]
    given = [url.lower() for url in urls if isinstance(url, str)]
    if tls and given and all(url.startswith("http:") for url in given):
        yield f"{path}.tls: of no use, as the address begins with http: and not with https:"
    if "cert_file" not in tls:
        for name in ("key_file", "key_password", "key_password_file"):
            if name in tls:
                yield f"{path}.tls: {name} is of no use without cert_file"


def _auth(path: str, auth: dict[Any, Any]) -> Iterator[str]:
    given = [name for name in _AUTH if auth.get(name) is not None]
    basic = [name for name in given if not name.startswith("bearer")]
    if basic and len(basic) < len(given):
        yield f"{path}: give a username and its password or a bearer token, not both"
    elif not given:
        yield f"{path}: give username and password, or bearer_token (each secret also as _file)"
    elif basic == ["username"]:
        yield f"{path}: password or password_file is required with username"
    elif basic and "username" not in basic:
        yield f"{path}: username is required with a password"
    yield from both(path, auth)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _flow(
    path: str, flow: dict[Any, Any], kafkas: Iterable[str], connects: tuple[dict[Any, Any], ...]
) -> Iterator[str]:
    for end in ("upstream", "downstream"):
        yield from known(flow.get(end), kafkas, f"{path}.{end}")
    everything = mapping(flow.get("copies")).get("*")
    if isinstance(everything, str) and "{topic}" not in everything:
        yield (
            f'{path}.copies.*: "{everything}" would have the copies of all topics, and no record '
            "says of which: use {topic}"
        )
    syncs = mapping(flow.get("offset_syncs"))
    yield from known(syncs.get("kafka"), kafkas, f"{path}.offset_syncs.kafka")
    named = flow.get("connect")
    if named is not None:
        names = (at["name"] for at in connects if isinstance(at.get("name"), str))
        yield from known(named, names, f"{path}.connect", under="connect")
        return
    downstream = flow.get("downstream")
    able = [at for at in connects if at.get("kafka") == downstream and not _has_url(at)]
    if len(able) != 1 and isinstance(downstream, str):
        found = f"{len(able)} entries without url are" if able else "no entry without url is"
        yield (f'{path}.connect: required: under connect, {found} on "{downstream}"')


def _has_url(connect: dict[Any, Any]) -> bool:
    return connect.get("url") is not None or connect.get("urls") is not None
