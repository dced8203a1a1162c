"""Paths of a connector in Connect's REST API.

Connect takes nearly any name, and a path cannot carry all of them: Jetty 12 (Kafka 4) refuses an
encoded `/`, `%`, backslash, control character, `.` and `..` with 400 "Ambiguous URI".
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

PATH_REFUSAL_REASON: Final = (
    "a worker since Kafka 4 takes no path with / % \\ or .. in a connector's name; "
    "its offsets are in the offsets topic"
)
_REFUSED_NAME: Final = re.compile(r"[/%\\\x00-\x1f\x7f]|\A\.\.?\Z")


def build_connector_path(connector: str, what: str = "") -> str:
    """Return `/connectors/NAME`, or `what` below it, with the name as one segment."""
    segment = quote(connector, safe="", errors="surrogatepass")
    if connector in {".", ".."}:  # a client would resolve it, and ask for another path
        segment = connector.replace(".", "%2E")
    return f"/connectors/{segment}/{what}" if what else f"/connectors/{segment}"


def is_refused_in_path(connector: str) -> bool:
    """Check whether a worker since Kafka 4 refuses this name in a path."""
    return _REFUSED_NAME.search(connector) is not None
