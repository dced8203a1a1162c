"""Readers of secret files that the configuration names: passwords, tokens, TLS keys.

They are called while a configuration is checked, and again by clients whose secrets rotate. No
error repeats the text of a file; of a PEM file OpenSSL names the problem by a constant.
"""

from __future__ import annotations

import ssl
import stat
from pathlib import Path
from typing import Final

SECRET_BYTES_MAX = 1024 * 1024  # a bundle of every public authority in PEM is a fifth of this
TOKEN_CHARS_MIN: Final = 32  # 128 bits in hex: tokens are kept as plain hashes, so none is guessed
_TOKENS_MAX: Final = 2  # the old one and the new one, while they are exchanged
_OTHERS_MODE_BITS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_secret(path: Path) -> str:
    """Return the text of a file, without the newline at its end.

    Raises OSError, or ValueError for a file that is empty, not UTF-8 or larger than 1 MiB.
    """
    with path.open("rb") as file:
        raw = file.read(SECRET_BYTES_MAX + 1)
    if len(raw) > SECRET_BYTES_MAX:
        raise ValueError("it is larger than 1 MiB")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ValueError("it is empty")
    return text


def read_private_file(path: Path) -> str:
    """Return the text of a file that only its owner may read or write.

    Raises as read_secret, and ValueError for a file that others may read or write.
    """
    if stat.S_IMODE(path.stat().st_mode) & _OTHERS_MODE_BITS:
        raise ValueError("others may read or write it; chmod 600 is what it needs")
    return read_secret(path)


def parse_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens of a file, one in each line.

    Raises ValueError if there are more than two, or if one is shorter than 32 characters or cannot
    be part of a header.
    """
    tokens = tuple(text.split("\n"))
    if len(tokens) > _TOKENS_MAX:
        raise ValueError(f"it has more than {_TOKENS_MAX} lines")
    for token in tokens:
        if len(token) < TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable():
            raise ValueError(f"a token has {TOKEN_CHARS_MIN} printable characters or more")
        if " " in token:
            raise ValueError("a token has no spaces")
    return tokens


def read_file_stamp(path: Path) -> tuple[int, ...] | None:
    """Return inode, mtime, size and mode, which change with the file; None if it is missing."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size, stat.st_mode)


def describe_file_error(error: OSError | ValueError) -> str:
    """Return why read_secret failed, without the path.

    The secret itself may have been given in place of a path.
    """
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return f"cannot be used: {error}"


_NO_CERTIFICATE: Final = "it has no certificate in PEM"
_NO_PAIR: Final = (
    "one has no PEM of its kind (certificate and key exchanged?), or the key's password is missing "
    "or wrong"
)
_REASON_WORDS: Final = {
    "BAD_DECRYPT": "the key's password is wrong",
    "CA_MD_TOO_WEAK": "its signature is too weak for this machine's OpenSSL",
    "EE_KEY_TOO_SMALL": "its key is too short for this machine's OpenSSL",
    "KEY_TYPE_MISMATCH": "the key does not belong to the certificate",
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": _NO_CERTIFICATE,
}


def describe_tls_error(error: OSError | ValueError, *, authorities: bool = False) -> str:
    """Return why a file of certificates, or a certificate with its key, cannot be used.

    `authorities`: the file has certificates to trust, and has no key.
    """
    if not isinstance(error, ssl.SSLError):
        return describe_file_error(error)
    words = _REASON_WORDS.get(error.reason or "")
    return f"cannot be used: {words or (_NO_CERTIFICATE if authorities else _NO_PAIR)}"
