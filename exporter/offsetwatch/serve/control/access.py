"""Authentication of control requests by token or certificate, and the roles of principals.

A token is compared by its SHA-256, as in the configuration. The time of a comparison could only
reveal a hash, which is of no use. TLS has verified a certificate; here its alternative names are
looked up, never its common name.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import structlog

from offsetwatch.config import CertificatePrincipal, Control, PasswordPrincipal, TokenPrincipal
from offsetwatch.config.files import (
    describe_file_error,
    parse_tokens,
    read_file_stamp,
    read_private_file,
)

_BEARER = re.compile(r"[Bb]earer +([\x21-\x7e]{1,512})")
_SANS: Final = {"DNS": "dns", "URI": "uri", "email": "email", "IP Address": "ip"}

log = structlog.get_logger()


class UserRole(StrEnum):
    """Role of a principal.

    Each of the first four includes those before it. A hook may only deliver alerts, and only a hook
    may.
    """

    VIEWER = "viewer"
    PROPOSER = "proposer"
    APPROVER = "approver"
    OPERATOR = "operator"
    HOOK = "hook"

    def allows(self, needed: UserRole) -> bool:
        """Check whether this role includes the needed one."""
        if UserRole.HOOK in (self, needed):
            return self is needed
        return _RANK[self] >= _RANK[needed]


_RANK: Final = {role: rank for rank, role in enumerate(UserRole)}


class AuthenticatedPrincipal:
    """Principal of an authenticated request, with its role and the connectors it may see."""

    def __init__(
        self, configured: TokenPrincipal | CertificatePrincipal | PasswordPrincipal
    ) -> None:
        self.name = configured.name
        self.role = UserRole(configured.role)
        self._clusters = None if configured.connect is None else frozenset(configured.connect)
        self._connectors = configured.connectors

    @property
    def sees_all(self) -> bool:
        """Check whether the principal is not restricted to some connectors."""
        return self._clusters is None and self._connectors is None

    def sees(self, connect_cluster: str, connector: str) -> bool:
        """Check whether the principal may see this connector."""
        if self._clusters is not None and connect_cluster not in self._clusters:
            return False
        return self._connectors is None or self._connectors.allows(connector)


class Principals:
    """All principals of the configuration. For one thread."""

    def __init__(self, control: Control) -> None:
        self._tokens = [_TokenVerifier(token) for token in control.tokens]
        self._clients = [(client.san, AuthenticatedPrincipal(client)) for client in control.clients]
        self._users = {user.user: AuthenticatedPrincipal(user) for user in control.users}

    def authenticate(
        self, authorization: Sequence[str], certificate: Mapping[str, Any] | None, now: float
    ) -> AuthenticatedPrincipal | None:
        """Return the principal of these headers and this verified certificate.

        None if it is unknown, or if the certificate names several. If there is a header, it alone
        counts: a certificate does not make up for a wrong token.
        """
        if authorization:
            return self._by_token(authorization, now)
        if not certificate:
            return None
        names = {
            _normalise_name(f"{_SANS[kind]}:{value}")
            for kind, value in certificate.get("subjectAltName", ())
            if kind in _SANS
        }
        principals = [
            principal for san, principal in self._clients if _normalise_name(san) in names
        ]
        return principals[0] if len(principals) == 1 else None

    @property
    def users(self) -> bool:
        """Check whether the configuration has users with passwords."""
        return bool(self._users)

    def of_user(self, user: str) -> AuthenticatedPrincipal | None:
        """Return the principal of a user with a password; None if there is none of this name."""
        return self._users.get(user)

    def _by_token(self, authorization: Sequence[str], now: float) -> AuthenticatedPrincipal | None:
        match = _BEARER.fullmatch(authorization[0])
        if match is None or len(authorization) > 1:
            return None
        sha256 = hashlib.sha256(match[1].encode()).digest()
        matching: AuthenticatedPrincipal | None = None
        for holder in self._tokens:
            if holder.has(sha256, now):
                matching = holder.principal
        return matching


class _TokenVerifier:
    """Verifier of the tokens of one principal. Reads their file again when it has changed."""

    def __init__(self, token: TokenPrincipal) -> None:
        self.principal = AuthenticatedPrincipal(token)
        self._path = token.token_file
        self._expires_at = None if token.expires is None else token.expires.timestamp()
        self._hashes: tuple[bytes, ...] = ()
        self._stamp: object = None
        if token.token_sha256 is not None:
            self._hashes = (bytes.fromhex(token.token_sha256),)

    def has(self, sha256: bytes, now: float) -> bool:
        if self._path is not None:
            self._read_again()
        same = [hmac.compare_digest(sha256, own) for own in self._hashes]
        return any(same) and (self._expires_at is None or now < self._expires_at)

    def _read_again(self) -> None:
        assert self._path is not None
        now = read_file_stamp(self._path)
        if now is not None and now == self._stamp:
            return
        self._stamp = now
        try:
            tokens = parse_tokens(read_private_file(self._path))
        except (OSError, ValueError) as exc:
            # Gone, or readable by others: in both cases it is no secret to rely on any more.
            self._hashes = ()
            log.warning(
                "token_unusable", principal=self.principal.name, reason=describe_file_error(exc)
            )
            return
        self._hashes = tuple(hashlib.sha256(token.encode()).digest() for token in tokens)


def _normalise_name(san: str) -> str:
    """Return a DNS name in lower case, as host names ignore case; any other name as it is."""
    return san.lower() if san.startswith("dns:") else san
