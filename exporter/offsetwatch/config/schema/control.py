"""Schema of the section `control`: the control listener's address and clients."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from offsetwatch.config.schema.section import ConfigSection, Patterns
from offsetwatch.config.schema.types import File, Listen, Name, TokenFile, ZonedMoment, require_form

_SHA256: Final = "the 64 hexadecimal digits that sha256sum prints of the token, in lower case"
_SAN: Final = "a kind and a name, as in dns:alertmanager-1.example.com (or uri:, email:, ip:)"


class ControlPrincipal(ConfigSection):
    """A client that may send requests."""

    name: Name
    """The name in plans and in the journal. A plan cannot be approved under the name that proposed
    it."""
    role: Literal["viewer", "proposer", "approver", "operator", "hook"]
    """viewer reads; proposer also proposes plans; approver also approves and rejects them; operator
    also aborts, resolves, pauses, sets the mode and closes breakers. hook forwards alerts and
    nothing else."""
    connect: list[Name] | None = Field(default=None, min_length=1)
    """Entries under connect whose connectors this client may see and change. Default: all."""
    connectors: Patterns | None = None
    """Connectors that this client may see and change. Default: all. A client with a list cannot
    read the journal, backups and breakers, and cannot pause or set the mode, since those concern
    all."""


class TokenPrincipal(ControlPrincipal):
    """A client that authenticates with a bearer token."""

    token_sha256: Annotated[str, require_form(r"[0-9a-f]{64}", _SHA256)] | None = Field(
        default=None, repr=False
    )
    """The token's SHA-256 in hex (printf %s TOKEN | sha256sum), so that the token itself is not in
    this file. It must be a random one: openssl rand -hex 32."""
    token_file: TokenFile | None = None
    """Instead: a file with the token, of at least 32 characters, readable only by its owner (mode
    0600). It is read again when it changes. A second line may have another token during a
    rotation."""
    expires: ZonedMoment | None = None
    """The moment from which on the token is refused, as 2030-01-31T00:00:00Z."""


class CertificatePrincipal(ControlPrincipal):
    """A client that authenticates with a certificate of client_ca_file in web_config_file."""

    san: Annotated[str, require_form(r"(dns|uri|email|ip):[\x21-\x7e]{1,500}", _SAN)]
    """A subject alternative name of it, exactly, with its kind: dns:, uri:, email: or ip:. The
    common name does not count."""


class PasswordPrincipal(ControlPrincipal):
    """A client that authenticates with a password."""

    user: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """The name under basic_auth_users in web_config_file. This listener refuses a user that has a
    password there and no entry here."""


class Control(ConfigSection):
    """A listener of its own for what changes something. Metrics are not served here."""

    listen: Listen = "127.0.0.1:9641"
    """The address to listen on. An address other than loopback needs a web_config_file with TLS."""
    web_config_file: File | None = None
    """A web config file as of Prometheus and its exporters, with TLS, headers and passwords; read
    again when it changes. Without one: plain HTTP, on loopback only. See docs/web-config.md."""
    tokens: list[TokenPrincipal] = Field(default_factory=list)
    """Clients that authenticate with a bearer token."""
    clients: list[CertificatePrincipal] = Field(default_factory=list)
    """Clients that authenticate with a certificate."""
    users: list[PasswordPrincipal] = Field(default_factory=list)
    """Clients that authenticate with a password of web_config_file."""
