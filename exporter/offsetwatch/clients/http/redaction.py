"""Redaction of messages of other programs for logs and pages: short, one line, no secrets."""

from __future__ import annotations

import re
from typing import Final

MESSAGE_CHARS_MAX: Final = 500
# Of a line: looking for secrets takes the square of its length where it is full of their names.
SCANNED_CHARS_MAX: Final = 4 * MESSAGE_CHARS_MAX

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]+")
_SECRET = re.compile(
    r"""(?ix) ((?:passw(?:or)?d|secret|token|credential|api.?key|jaas)[\w.-]*["']?\s*[=:]\s*)
    (?: "[^"]*(?:"|\Z) | '[^']*(?:'|\Z) | [^\s,;})\]]+ )"""
)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^\s/@]+@")


def redact_secrets(message: str) -> str:
    """Return one short line of a foreign message, without what looks like a secret."""
    line = _UNPRINTABLE.sub(" ", message.split("\n", 1)[0]).strip()
    if len(line) > SCANNED_CHARS_MAX:
        # Between two words: half of what stands before the @ of an address is not known for that.
        line = line[:SCANNED_CHARS_MAX].rpartition(" ")[0].rstrip() + "…"
    line = _URL_CREDENTIALS.sub("…@", _SECRET.sub(r"\1…", line))
    return line if len(line) <= MESSAGE_CHARS_MAX else f"{line[:MESSAGE_CHARS_MAX]}…"
