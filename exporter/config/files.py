"""Files that the configuration names: secrets, and what TLS needs.

Called while a configuration is checked, and again by clients whose secrets rotate. The text of a
file is never part of an error.
"""

from __future__ import annotations

from pathlib import Path

SECRET_BYTES_MAX = 1024 * 1024  # a bundle of every public authority in PEM is a fifth of this


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


def problem_with(error: OSError | ValueError) -> str:
    """Why read_secret failed. The path is left out: where a file was expected there may stand the
    secret itself.
    """
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return f"cannot be used: {error}"
