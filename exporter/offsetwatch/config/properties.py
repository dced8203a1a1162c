"""Java properties files, and what librdkafka and Java call differently in Kafka client settings.

The parser is equal to `java.util.Properties.load`.

No error repeats a part of a file, which may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 1024 * 1024
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY_AND_VALUE = re.compile(r"((?:[^\\:= \t\f]|\\.)*)[ \t\f]*(?:[:=][ \t\f]*)?(.*)", re.DOTALL)
_BLANKS: Final = " \t\f"
_SHORT_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings of a file. Raises OSError, or ValueError for a file larger than 1 MiB."""
    with path.open("rb") as file:
        raw = file.read(BYTES_MAX + 1)
    if len(raw) > BYTES_MAX:
        raise ValueError("it is larger than 1 MiB")
    return parse_properties(raw)


def parse_properties(raw: bytes) -> dict[str, str]:
    """Return the settings; of a key that is given twice the last counts.

    Java reads Latin-1, whatever the encoding of the file.
    """
    settings: dict[str, str] = {}
    for line in _join_lines(raw.decode("latin-1")):
        match = _KEY_AND_VALUE.fullmatch(line)
        assert match is not None
        settings[unescape(match[1])] = unescape(match[2])
    return settings


def _join_lines(text: str) -> Iterable[str]:
    """Yield logical lines, without comments and blank lines.

    A line that ends in an odd number of backslashes is joined with the next. A line of only such a
    backslash does not begin a logical line: a comment may follow it.
    """
    begun = ""
    for natural in _LINE_ENDS.split(text):
        line = natural.lstrip(_BLANKS)
        if not begun and line[:1] in {"", "#", "!"}:
            continue
        line = begun + line
        slashes = len(line) - len(line.rstrip("\\"))
        begun = line[:-1] if slashes % 2 else ""
        if not slashes % 2:
            yield line
    if begun:
        yield begun


def unescape(text: str) -> str:
    """Return the text with its escapes replaced."""

    def one(match: re.Match[str]) -> str:
        what = match[1]
        return chr(int(what[1:], 16)) if len(what) == 5 else _SHORT_ESCAPES.get(what, what)

    return _ESCAPE.sub(one, text)


# --- Kafka client settings -----------------------------------------------------------------------

_MODULES: Final = "org.apache.kafka.common.security"
OAUTH_LOGIN_MODULE: Final = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
OAUTH_CALLBACK_HANDLER: Final = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
# Mechanisms with a username and a password.
LOGIN_MODULES: Final = {
    "PLAIN": f"{_MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule",
}
# librdkafka's NAME.pem, and Java's setting with the same text where the store's type is PEM.
PEM_SETTINGS: Final = {
    "ssl.ca": "ssl.truststore.certificates",
    "ssl.certificate": "ssl.keystore.certificate.chain",
    "ssl.key": "ssl.keystore.key",
}
_LOGIN = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL
)
_LOGIN_OPTION = re.compile(
    r"""\s+([\w.\-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"';]+)""", re.DOTALL
)
_LOGIN_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)


def format_login(module: str, options: Mapping[str, str]) -> str:
    """Return a `sasl.jaas.config` with one login; Java reads its values with C's escapes."""
    pairs = " ".join(
        f'{name}="{value.translate(_LOGIN_ESCAPES)}"' for name, value in options.items()
    )
    return f"{module} required {pairs};"


def parse_login(text: str) -> tuple[str, dict[str, str]] | None:
    """Return module and options of a `sasl.jaas.config`; None if it is not one login."""
    match = _LOGIN.fullmatch(text)
    if match is None:
        return None
    options: dict[str, str] = {}
    position = 0
    while option := _LOGIN_OPTION.match(match[3], position):
        # Java's StreamTokenizer reads C's escapes inside quotes.
        quoted = option[2][0] in "\"'"
        options[option[1]] = unescape(option[2][1:-1]) if quoted else option[2]
        position = option.end()
    return None if match[3][position:].strip() else (match[1], options)
