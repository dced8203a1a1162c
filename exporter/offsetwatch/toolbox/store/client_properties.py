"""Translation of a worker's Kafka client settings from Java to librdkafka.

A setting without an equivalent is a mistake that names the setting and never its value; nothing
here repeats a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from offsetwatch.addresses import normalize_address
from offsetwatch.config.properties import parse_properties, unescape
from offsetwatch.decode.java.values import trim_blanks, values_of

_PLACEHOLDER = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*)\}")
_PROVIDERS: Final = "org.apache.kafka.common.config.provider."
_FILE_PROVIDER: Final = _PROVIDERS + "FileConfigProvider"
_DIRECTORY_PROVIDER: Final = _PROVIDERS + "DirectoryConfigProvider"
_LOGIN = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL
)
_LOGIN_OPTION = re.compile(
    r"""\s+([\w.\-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"';]+)""", re.DOTALL
)
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
UNRESOLVED_NOTE: Final = "its config provider does not run here, or has no such value"
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


class UntranslatableSettings(Exception):
    """Settings without an equivalent in librdkafka; `mistakes` names each, without its value."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


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
        if kind == _DIRECTORY_PROVIDER and key in {at.name for at in path.iterdir()}:
            return (path / key).read_text()
    except (OSError, KeyError, UnicodeDecodeError):
        pass
    return match[0]


def has_placeholder(value: str) -> bool:
    """Return whether a value still has a placeholder for a config provider."""
    return _PLACEHOLDER.search(value) is not None


def translate_client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate un-prefixed Java client settings to librdkafka properties.

    Raises UntranslatableSettings with every setting that has no equivalent.
    """
    mistakes: list[str] = []
    kept = {
        name: trim_blanks(value) for name, value in settings.items() if _is_client_setting(name)
    }
    for name in sorted(name for name, value in kept.items() if has_placeholder(value)):
        mistakes.append(f"{name}: {UNRESOLVED_NOTE}; {_KAFKA_OPTION_ADVICE}")
        del kept[name]
    made: dict[str, str] = {}
    if kept.get("bootstrap.servers"):
        # Java's clients take a protocol in front, and an IPv6 host without brackets.
        servers = (at.rpartition("://")[2] for at in values_of(kept["bootstrap.servers"]))
        made["bootstrap.servers"] = ",".join(
            normalize_address(server) for server in servers if server
        )
    elif not mistakes:
        mistakes.append("bootstrap.servers: missing")
    protocol = kept.get("security.protocol", "PLAINTEXT").upper()
    made["security.protocol"] = protocol.lower()
    if protocol.endswith("SSL"):
        made |= _translate_tls(kept, mistakes)
    if protocol.startswith("SASL"):
        made |= _translate_sasl(kept, mistakes)
    if mistakes:
        raise UntranslatableSettings(tuple(mistakes))
    return made


def _is_client_setting(name: str) -> bool:
    return name in {"bootstrap.servers", "security.protocol"} or name.startswith(("ssl.", "sasl."))


def _translate_tls(kept: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    made = {}
    algorithm = kept.get("ssl.endpoint.identification.algorithm", "https")
    made["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
    if "ssl.key.password" in kept:
        made["ssl.key.password"] = kept["ssl.key.password"]
    made |= _translate_truststore(kept, mistakes)
    made |= _translate_keystore(kept, mistakes)
    for name in sorted(kept):
        if not name.startswith("ssl.") or name.startswith(_STORES):
            continue
        if name not in _TUNING | _TRANSLATED_SETTINGS and kept[name]:
            mistakes.append(f"{name}: has no counterpart here; {_KAFKA_OPTION_ADVICE}")
    return made


def _translate_truststore(kept: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    inline, file = kept.get("ssl.truststore.certificates"), kept.get("ssl.truststore.location")
    kind = kept.get("ssl.truststore.type", "JKS").upper()
    if not inline and not file:
        return {}  # the authorities of the JVM, and here those of the operating system
    if kind != "PEM":
        mistakes.append(
            f"ssl.truststore.type: {_describe_store_type(kind)}, where PEM can be read; "
            f"{_KAFKA_OPTION_ADVICE}"
        )
        return {}
    return {"ssl.ca.pem": inline} if inline else {"ssl.ca.location": str(file)}


def _translate_keystore(kept: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    chain, key = kept.get("ssl.keystore.certificate.chain"), kept.get("ssl.keystore.key")
    file, kind = kept.get("ssl.keystore.location"), kept.get("ssl.keystore.type", "JKS").upper()
    if not chain and not key and not file:
        return {}
    if kind == "PKCS12" and file:
        password = kept.get("ssl.keystore.password", "")
        return {"ssl.keystore.location": file, "ssl.keystore.password": password}
    if kind != "PEM":
        mistakes.append(
            f"ssl.keystore.type: {_describe_store_type(kind)}, where PEM can be read; "
            f"{_KAFKA_OPTION_ADVICE}"
        )
        return {}
    if file:  # one file with the key and the chain
        return {"ssl.certificate.location": file, "ssl.key.location": file}
    return {"ssl.certificate.pem": chain or "", "ssl.key.pem": key or ""}


def _describe_store_type(kind: str) -> str:
    return kind if kind in {"JKS", "PKCS12", "BCFKS"} else "of another kind"


def _translate_sasl(kept: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    mechanism = kept.get("sasl.mechanism", "GSSAPI").upper()
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        known = ", ".join(_LOGIN_MODULES)
        mistakes.append(f"sasl.mechanism: none of {known}; {_KAFKA_OPTION_ADVICE}")
        return {}
    options = _parse_login(kept.get("sasl.jaas.config", ""), module)
    if options is None:
        mistakes.append(
            f"sasl.jaas.config: not one login by {module} with username and password; "
            f"{_KAFKA_OPTION_ADVICE}"
        )
        return {}
    if any(name.startswith("sasl.") and "callback" in name and kept[name] for name in kept):
        mistakes.append(f"sasl.*.callback.handler.class: runs in Java; {_KAFKA_OPTION_ADVICE}")
    username, password = options
    return {"sasl.mechanism": mechanism, "sasl.username": username, "sasl.password": password}


def _parse_login(text: str, module: str) -> tuple[str, str] | None:
    """Return (username, password) of a JAAS configuration with one login of this module."""
    match = _LOGIN.fullmatch(text)
    if match is None or match[1] != module:
        return None
    options: dict[str, str] = {}
    position = 0
    while option := _LOGIN_OPTION.match(match[3], position):
        options[option[1]] = _unquote_value(option[2])
        position = option.end()
    if match[3][position:].strip() or "tokenauth" in options:
        return None
    username, password = options.get("username"), options.get("password")
    return None if username is None or password is None else (username, password)


def _unquote_value(quoted: str) -> str:
    """Unquote a value as Java's StreamTokenizer does: C's escapes, inside quotes."""
    if quoted[0] not in "\"'":
        return quoted
    return unescape(quoted[1:-1])
