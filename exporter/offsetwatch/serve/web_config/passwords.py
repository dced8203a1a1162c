"""Verification of passwords with bcrypt, for both listeners.

One bcrypt check takes a tenth of a second of a processor, by design. So there is one check at a
time, in its own thread, and few may wait for it. An address may fail ten times within a minute. A
correct password is remembered, so that a scraper pays once and is accepted while others guess. What
is remembered is a keyed hash, whose key exists in this process alone: it reveals nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Final

import bcrypt
from pydantic import SecretStr

FAILURES_MAX: Final = 10  # of one address
WINDOW_S: Final = 60.0
_ADDRESSES_MAX: Final = 1024  # beyond it the oldest is forgotten


class AuthFailureCounter:
    """Failed authentications of each address in a window of WINDOW_S seconds.

    Beyond FAILURES_MAX an address gets 429, and nothing is logged. A valid token is accepted all
    the same: the address may be that of a proxy or of this machine, and another client must not
    lock out an operator who has to stop something. A token of 128 bits cannot be guessed at any
    rate.
    """

    def __init__(self) -> None:
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def again(self, address: str, now: float) -> bool:
        """Count a failure; return True if it exceeds FAILURES_MAX."""
        begun_at, count = self._windows.pop(address, (now, 0))
        if not begun_at <= now < begun_at + WINDOW_S:
            begun_at, count = now, 0
        self._windows[address] = (begun_at, count + 1)
        if len(self._windows) > _ADDRESSES_MAX:
            self._windows.popitem(last=False)
        return count >= FAILURES_MAX

    def take_back(self, address: str) -> None:
        """Remove a failure that was counted before the authentication succeeded."""
        if address in self._windows:
            begun_at, count = self._windows[address]
            self._windows[address] = (begun_at, max(count - 1, 0))


CHALLENGE: Final = ("WWW-Authenticate", 'Basic realm="offsetwatch", charset="UTF-8"')
WAITING_MAX: Final = 16  # checks at once, the one under way among them
REMEMBERED_MAX: Final = 128
_BYTES_MAX: Final = 72  # bcrypt looks at no more, and the library refuses more
_BASIC: Final = re.compile(r"[Bb]asic +([A-Za-z0-9+/]{1,4096}={0,2})")


class PasswordRejection(Enum):
    """Reason why a request is not authenticated."""

    NOTHING = "no password was shown"
    WRONG = "wrong"
    THROTTLED = "not checked: too many were wrong, or wait"


class PasswordChecker:
    """Checker of passwords. For one loop; `end` may be called by any thread.

    `failures` may be shared.
    """

    def __init__(self, failures: AuthFailureCounter, name: str) -> None:
        self._failures = failures
        self._key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, None] = OrderedDict()
        self._waiting = 0
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{name}-bcrypt")

    async def authenticate(
        self,
        authorization: Sequence[str],
        users: Mapping[str, SecretStr],
        address: str,
        now: float,
    ) -> str | PasswordRejection:
        """Return the authenticated user of these headers, or the reason why there is none.

        Never raises for their content.
        """
        if not authorization:
            return PasswordRejection.NOTHING
        key = _parse_basic_header(authorization)
        if key is None:
            if self._failures.again(address, now):
                return PasswordRejection.THROTTLED
            return PasswordRejection.WRONG
        user, password = key
        known = users.get(user)
        hashed = (_build_decoy_hash(users) if known is None else known.get_secret_value()).encode()
        proof = self._proof(user.encode(), hashed, password)
        if known is not None and proof in self._remembered:
            self._remembered.move_to_end(proof)
            return user
        # Counted before it is looked at, or many at once would all be looked at.
        if self._waiting >= WAITING_MAX or self._failures.again(address, now):
            return PasswordRejection.THROTTLED
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._worker, _is_correct_password, password, hashed)
        finally:
            self._waiting -= 1
        if not right or known is None:
            return PasswordRejection.WRONG
        self._failures.take_back(address)
        self._remembered[proof] = None
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return user

    def end(self) -> None:
        """Shut down the worker thread: no more passwords are checked."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _proof(self, *parts: bytes) -> bytes:
        """Return the keyed hash of user, bcrypt hash and password.

        The bcrypt hash is part of it: a password that was changed is no longer remembered.
        """
        text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._key, text, "sha256")


def _parse_basic_header(authorization: Sequence[str]) -> tuple[str, bytes] | None:
    """Return user and password of the only Authorization header; None for anything else."""
    match = _BASIC.fullmatch(authorization[0]) if len(authorization) == 1 else None
    if match is None:
        return None
    try:
        user, colon, password = base64.b64decode(match[1], validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _build_decoy_hash(users: Mapping[str, SecretStr]) -> str:
    """Build the bcrypt hash for an unknown user.

    It costs as much as a known user's hash, and no password matches it.
    """
    dearest = max((hashed.get_secret_value()[4:6] for hashed in users.values()), default="10")
    return f"$2b${dearest}${'.' * 53}"


def _is_correct_password(password: bytes, hashed: bytes) -> bool:
    """Check a password. Runs in the worker; bcrypt compares in constant time."""
    return bcrypt.checkpw(password[:_BYTES_MAX], hashed)
