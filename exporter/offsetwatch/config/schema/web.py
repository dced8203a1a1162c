"""Schema of a web config file: TLS, passwords and headers of a listener.

The format is that of Prometheus and its exporters (exporter-toolkit), so that one file serves
several of them. web_config_file names it. It is read when the configuration is checked, and again
by serve/web_config when it has changed. Strict: an unknown key is a mistake. Environment variables
are not replaced, since hashes contain dollar signs. No message repeats a user, a password or a
hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from offsetwatch.config.document import as_mapping, format_mistake
from offsetwatch.config.files import describe_file_error, read_secret
from offsetwatch.config.schema.types import FOLDER_KEY, ConfigSection, File, require_form
from offsetwatch.errors import ConfigError
from offsetwatch.yaml_file import parse_yaml

COST_MIN: Final = 4  # bcrypt's own
COST_MAX: Final = 16  # twice as long with each; at 16 a check takes seconds
USERS_KEY: Final = "basic_auth_users"
_BCRYPT_HASH: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
_REQUIRING_AUTH_TYPES: Final = ("RequireAnyClientCert", "RequireAndVerifyClientCert")
_VERIFYING_AUTH_TYPES: Final = ("VerifyClientCertIfGiven", *_REQUIRING_AUTH_TYPES)
_TLS13_CIPHERS: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)

TlsVersion = Literal["TLS12", "TLS13"]
ClientAuth = Literal[
    "NoClientCert",
    "RequestClientCert",
    "RequireAnyClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
]
CipherSuite = Literal[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
]
Curve = Literal["CurveP256", "CurveP384", "CurveP521", "X25519"]


def _check_hash(value: SecretStr) -> SecretStr:
    match = _BCRYPT_HASH.fullmatch(value.get_secret_value())
    if match is None:
        raise PydanticCustomError("wrong", "expected a bcrypt hash, as $2y$10$ and 53 characters")
    if not COST_MIN <= int(match[1]) <= COST_MAX:
        text = f"the cost of a hash is from {COST_MIN} to {COST_MAX}, as each check takes that long"
        raise PydanticCustomError("wrong", "{text}", {"text": text})
    return value


UserName = Annotated[
    str,
    require_form(
        r"[^:\x00-\x1f\x7f]{1,100}", "the name of a user, of 1 to 100 characters without :"
    ),
]
PasswordHash = Annotated[SecretStr, AfterValidator(_check_hash)]
SubjectAltName = Annotated[str, StringConstraints(min_length=1)]
# What a header can carry; blank means that it is not sent.
HeaderValue = Annotated[
    str,
    StringConstraints(max_length=4096),
    require_form(r"[\x20-\x7e]*", "printable characters of ASCII"),
]


class WebTls(ConfigSection):
    """Without it: plain HTTP."""

    cert_file: File
    key_file: File
    client_auth_type: ClientAuth = "NoClientCert"
    client_ca_file: File | None = None
    client_allowed_sans: list[SubjectAltName] | None = Field(default=None, min_length=1)
    min_version: TlsVersion = "TLS12"
    max_version: TlsVersion = "TLS13"
    cipher_suites: list[CipherSuite] = Field(default_factory=list)
    prefer_server_cipher_suites: bool = True
    curve_preferences: list[Curve] = Field(default_factory=list)

    @property
    def verifies(self) -> bool:
        """Return whether a certificate that a client shows is verified."""
        return self.client_auth_type in _VERIFYING_AUTH_TYPES

    @property
    def demands(self) -> bool:
        """Return whether a client without a certificate is rejected."""
        return self.client_auth_type in _REQUIRING_AUTH_TYPES

    @property
    def tls13_only(self) -> bool:
        """Return whether the settings allow TLS 1.3 only."""
        named = self.cipher_suites
        return self.min_version == "TLS13" or (bool(named) and set(named) <= set(_TLS13_CIPHERS))


class WebHeaders(ConfigSection):
    """Those that the shape allows."""

    content_security_policy: HeaderValue = Field(default="", alias="Content-Security-Policy")
    x_frame_options: Literal["deny", "sameorigin"] | None = Field(
        default=None, alias="X-Frame-Options"
    )
    x_content_type_options: Literal["nosniff"] | None = Field(
        default=None, alias="X-Content-Type-Options"
    )
    x_xss_protection: HeaderValue = Field(default="", alias="X-XSS-Protection")
    strict_transport_security: HeaderValue = Field(default="", alias="Strict-Transport-Security")


class WebHttp(ConfigSection):
    """http2 is taken and without effect: HTTP/1.1 is what is spoken."""

    http2: bool = True
    headers: WebHeaders = WebHeaders()


class WebConfig(ConfigSection):
    """The whole file."""

    tls_server_config: WebTls | None = None
    http_server_config: WebHttp = WebHttp()
    basic_auth_users: dict[UserName, PasswordHash] = Field(default_factory=dict, repr=False)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers to send with every response."""
        model = self.http_server_config.headers.model_dump(by_alias=True)
        return tuple((name, value) for name, value in model.items() if value)


def load_web_config(path: Path) -> WebConfig:
    """Read a file. Raises ConfigError with every mistake in it, each with the file's name."""
    try:
        document = parse_yaml(read_secret(path), path.name)
    except (OSError, ValueError) as exc:
        raise ConfigError((f"{path.name}: {describe_file_error(exc)}",)) from None
    if not isinstance(document, dict):
        raise ConfigError((f"{path.name}: expected a mapping at the top level",))
    mistakes: list[str] = []
    web: WebConfig | None = None
    try:
        web = WebConfig.model_validate(document, context={FOLDER_KEY: path.parent})
    except ValidationError as exc:
        mistakes.extend(_format_mistake(dict(error), document) for error in exc.errors())
    mistakes.extend(_check_tls(as_mapping(document.get("tls_server_config"))))
    if web is None or mistakes:
        raise ConfigError(tuple(f"{path.name}: {mistake}" for mistake in mistakes))
    return web


def _format_mistake(error: dict[str, Any], document: dict[Any, Any]) -> str:
    """Return one line as config/document.py does, with a user's number in place of the name.

    User and hash may have been exchanged, so a name may be a hash.
    """
    where = error["loc"]
    if len(where) > 1 and where[0] == USERS_KEY:
        names = [str(name) for name in document[USERS_KEY]]
        number = names.index(str(where[1])) + 1
        error = {**error, "loc": (f"{USERS_KEY} (number {number})",)}
    return format_mistake(error, WebConfig)


def _check_tls(tls: dict[Any, Any]) -> Iterator[str]:
    """Yield contradictions between keys of the raw document, as config/checks.py does."""
    path = "tls_server_config"
    kind = tls.get("client_auth_type", "NoClientCert")
    if kind in _VERIFYING_AUTH_TYPES and tls.get("client_ca_file") is None:
        yield f"{path}.client_ca_file: required with {kind}, as what is shown is verified here"
    if kind not in _VERIFYING_AUTH_TYPES and tls.get("client_ca_file") is not None:
        yield f"{path}.client_ca_file: of no use without a client_auth_type that verifies"
    if kind not in _REQUIRING_AUTH_TYPES and tls.get("client_allowed_sans") is not None:
        yield f"{path}.client_allowed_sans: needs client_auth_type: RequireAndVerifyClientCert"
    newest = tls.get("max_version", "TLS13")
    if (tls.get("min_version", "TLS12"), newest) == ("TLS13", "TLS12"):
        yield f"{path}.min_version: is newer than max_version"
    ciphers = tls.get("cipher_suites")
    named = ciphers if isinstance(ciphers, list) else []
    if newest == "TLS12" and named and all(name in _TLS13_CIPHERS for name in named):
        yield f"{path}.cipher_suites: names none that max_version TLS12 has"
