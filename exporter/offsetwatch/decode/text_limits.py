"""Limits of texts of others that become labels, or are retained for each connector or task.

Connect limits none of them. A name is what requests and keys are made of, so one that is too long
is not used at all; other texts are shortened.
"""

from __future__ import annotations

import hashlib
from typing import Final

TEXT_CHARS_MAX: Final = 200  # class, version, alias, worker, id
STATE_CHARS_MAX: Final = 40  # Connect's own have eleven at most
NAME_CHARS_MAX: Final = 1_000  # connector, consumer group
TOPIC_CHARS_MAX: Final = 249  # Topic.MAX_NAME_LENGTH
_DIGEST_CHARS: Final = 8


def shorten_text(text: str) -> str:
    """Return a text of up to TEXT_CHARS_MAX characters; a longer one ends in `~` and its hash.

    Different texts remain different, and none becomes the name of a known class.
    """
    if len(text) <= TEXT_CHARS_MAX:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{text[: TEXT_CHARS_MAX - _DIGEST_CHARS - 1]}~{digest}"


def is_shortened(text: str) -> bool:
    """Check whether `shorten_text` made this text of a longer one."""
    return len(text) == TEXT_CHARS_MAX and text[-_DIGEST_CHARS - 1] == "~"
