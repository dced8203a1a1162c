"""Java regular expressions (java.util.regex) of configurations, matched in linear time by RE2.

Any user with the right to create a connector writes `topics.regex`, `topics` or `groups`. A
backtracking engine takes 19 s for `(a|a)*b` and 26 characters, and each more doubles it. RE2 takes
time in proportion to pattern and text. A pattern that it cannot express, or reads otherwise than
Java, is not matched: the answer is None, unknown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

PATTERN_CHARS_MAX: Final = 20_000  # a list of five hundred topics
PROGRAM_BYTES_MAX: Final = 1024 * 1024  # bounds the time for one character of a text
TEXT_CHARS_MAX: Final = 1000  # names of topics have 249 at most
# One token of a pattern outside of a class, and what RE2 reads otherwise than Java or Java refuses.
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\[pP](?:\{[A-Za-z]{1,2}\}|[A-Z])|\\x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]{1,6}\})"
    r"|\\[dDwWsSbBAzntraf]|\\[^A-Za-z0-9]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\}"
    r"|\(\?(?:<[A-Za-z][A-Za-z0-9]*>|[ims]*(?:-[ims]+)?(?::|\)(?![*+?{])))"
    r"|\((?!\?)|[^\\{(\[]",
    re.DOTALL,
)
_CLASS_TOKEN: Final = re.compile(
    r"\\[pP](?:\{[A-Za-z]{1,2}\}|[A-Z])|\\x[0-9A-Fa-f]{2}|\\[dDwWsSntraf]|\\[^A-Za-z0-9]|&(?!&)|[^\\\[&]",
    re.DOTALL,
)
# Of names beyond ASCII: borders of words are others before Java 19, and classes of letters follow
# the version of Unicode.
_VERSION_DEPENDENT: Final = re.compile(r"\\[bBpP]|\(\?[a-z]*i")
_IGNORES_CASE: Final = re.compile(r"\(\?[a-z]*i")
# What a repeated group holds after its last and perhaps empty round is not the same.
_REPEATED_GROUP: Final = re.compile(r"\)[*+{]")
# `.` and `$` of Java know more ends of lines than RE2's, and `\s` one more blank.
_LINE_ENDS: Final = re.compile("[\r\x0b\x85\u2028\u2029]")


class JavaPattern:
    """Pattern that has to match a whole name, as Matcher.matches() does."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._program = _compile_program(text)

    @property
    def is_known(self) -> bool:
        """Check whether RE2 reads this pattern as Java does."""
        return self._program is not None

    def matches(self, name: str) -> bool | None:
        """Check whether Java would match a name; None if that is unknown."""
        if self._program is None or len(name) > TEXT_CHARS_MAX or _LINE_ENDS.search(name):
            return None
        if not name.isascii() and _VERSION_DEPENDENT.search(self._text):
            return None
        try:
            return self._program.fullmatch(name) is not None
        except UnicodeEncodeError:  # a lone surrogate
            return None

    def first_match(self, name: str) -> Any | None:
        """Return the first match in a name with its groups, as Matcher.find() has it.

        None if there is none, or if Java may have other groups.
        """
        if (
            self.matches(name) is None
            or self._program is None
            or _REPEATED_GROUP.search(self._text)
        ):
            return None
        return self._program.search(name)


@lru_cache(maxsize=1024)
def _compile_program(text: str) -> Any | None:
    if len(text) > PATTERN_CHARS_MAX or not _is_portable(text):
        return None
    options = re2.Options()
    options.max_mem = PROGRAM_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError):
        return None


def _is_portable(text: str) -> bool:
    """Check whether Java and RE2 read every token of a pattern alike."""
    if _IGNORES_CASE.search(text) and not text.isascii():
        return False  # RE2 takes the sign of Kelvin for a k
    position = 0
    while position < len(text):
        if text[position] == "[":
            position = _find_class_end(text, position)
            if position < 0:
                return False
            continue
        token = _TOKEN.match(text, position)
        if token is None:
            return False
        position = token.end()
    return True


def _find_class_end(text: str, start: int) -> int:
    """Return the position after the character class that begins here.

    Negative where RE2 would read another class, as for Java's unions and intersections.
    """
    position = start + 1 + text.startswith("^", start + 1)
    first = position
    while position < len(text):
        if text[position] == "]" and position > first:
            return position + 1
        token = _CLASS_TOKEN.match(text, position)
        if token is None:
            return -1
        position = token.end()
    return -1
