"""Values of a configuration as Kafka's ConfigDef.parseType reads them.

ConfigDef trims every text before it parses it as a word, a truth value, a class or a list. The
values that a plugin gets (`originals`) are untrimmed, and do not pass this module.
"""

from __future__ import annotations

import re
from typing import Final

_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim takes away
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")  # \s of java.util.regex


def trim_blanks(text: str) -> str:
    """Return the text without blanks around it."""
    return text.strip(_BLANKS)


def values_of(text: str) -> tuple[str, ...]:
    """Return the members of a list, each without blanks around it; none of an empty text.

    A member may be empty, as between two commas.
    """
    whole = trim_blanks(text)
    return tuple(_COMMA.split(whole)) if whole else ()
