"""Files that the configuration names: secrets, and what TLS needs.

Called while a configuration is checked, and again by clients whose secrets rotate. The text of a
file is never part of an error.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

SECRET_BYTES_MAX = 1024 * 1024  # a bundle of every public authority in PEM is a fifth of this
TOKEN_CHARS_MIN: Final = 32  # 128 bits in hex: tokens are kept as plain hashes, so none is guessed
_TOKENS_MAX: Final = 2  # the old one and the new one, while they are exchanged
_OTHERS_MODE_BITS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_secret(path: Path) -> str:
    """The file's text without the newline that editors leave at its end.

    Raises OSError, or ValueError for a file that can be no secret.
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
    """The same, of a file that nobody but its owner may read or write. Raises as read_secret, and
    ValueError for one that others may.
    """
    if stat.S_IMODE(path.stat().st_mode) & _OTHERS_MODE_BITS:
        raise ValueError("others may read or write it; chmod 600 is what it needs")
    return read_secret(path)


def parse_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a file, one in a line. Raises ValueError if there is none, too many, or one
    that is too short or that no header can carry.
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
    """What changes when a file is written or replaced; None for a missing one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)


def describe_file_error(error: OSError | ValueError) -> str:
    """Why read_secret failed. The path is left out: where a file was expected there may stand the
    secret itself.
    """
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return f"cannot be used: {error}"
