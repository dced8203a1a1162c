"""Addresses of the form `host:port`, with an IPv6 host in brackets: `[::1]:9092`. Pure.

librdkafka and URLs need the brackets. Java clients and the Kafka protocol omit them, and an IPv6
host has many spellings. Two addresses are compared in the spelling of `normalize_address`.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

PORT_MAX: Final = 65_535
# Of ASCII a name has letters, digits, hyphens, dots and underscores, and no sign of a placeholder
# such as ${HOST}.
_HOST_PATTERN: Final = r"(?:[\w.-]|[^\x00-\x7f\s])+"
_ADDRESS_PATTERN = re.compile(
    rf"(?:\[(?P<ipv6>[^\[\]\s]+)\]|(?P<name>{_HOST_PATTERN})):(?P<port>[0-9]{{1,5}})"
)


class Address(NamedTuple):
    """Host, without brackets, and port of an address."""

    host: str
    port: int


def parse_address(text: str) -> Address | None:
    """Return the parts of `host:port` or `[ipv6]:port`; None for anything else."""
    match = _ADDRESS_PATTERN.fullmatch(text)
    if match is None or not 1 <= int(match["port"]) <= PORT_MAX:
        return None
    host = match["name"]
    if match["ipv6"] is not None:
        host = _normalize_ipv6(match["ipv6"])
    return None if host is None else Address(host, int(match["port"]))


def format_address(host: str, port: int | str) -> str:
    """Build an address in the spelling used for comparison; the host may have brackets."""
    bare = host.removeprefix("[").removesuffix("]")
    ipv6 = _normalize_ipv6(bare)
    return f"{bare.lower()}:{port}" if ipv6 is None else f"[{ipv6}]:{port}"


def normalize_address(text: str) -> str:
    """Return an address in the spelling used for comparison; other text is returned unchanged.

    Without brackets the port follows the last colon, as in Java clients.
    """
    host, colon, port = text.rpartition(":")
    return format_address(host, port) if colon and port.isdecimal() else text


def is_ipv6(host: str) -> bool:
    """Return whether a host without brackets is an IPv6 address; it may include a zone."""
    return _normalize_ipv6(host) is not None


def _normalize_ipv6(host: str) -> str | None:
    bare, percent, zone = host.partition("%")
    try:
        return f"{ipaddress.IPv6Address(bare)}{percent}{zone}"
    except ValueError:
        return None
