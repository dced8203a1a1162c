"""Plain HTTP over loopback, as the lab and the tests use it."""

from __future__ import annotations

import ssl
from typing import Final

# Without it httpx loads all public authorities for each request or client, for http:// alike: 0.2 s
# of processor time, in loops that wait for an answer, too.
NO_AUTHORITIES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
