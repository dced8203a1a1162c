"""Addresses `host:port`, where an IPv6 host stands in brackets: `[::1]:9092`. Pure.

librdkafka and URLs need the brackets; Java's clients and Kafka's own answers go without, and an
IPv6 host has many spellings. Two addresses are compared in the spelling of `written`.
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
    """A host, without brackets, and a port."""

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
    """Return the address of a host, with or without brackets, as all of them are compared."""
    bare = host.removeprefix("[").removesuffix("]")
    ipv6 = _normalize_ipv6(bare)
    return f"{bare}:{port}" if ipv6 is None else f"[{ipv6}]:{port}"


def normalize_address(text: str) -> str:
    """Return the spelling in which an address is compared; what is none as it is.

    Without brackets the port is what follows the last colon, as Java's clients take it.
    """
    host, colon, port = text.rpartition(":")
    return format_address(host, port) if colon and port.isdecimal() else text


def is_ipv6(host: str) -> bool:
    """Return whether this is an IPv6 address, without brackets; it may name its zone."""
    return _normalize_ipv6(host) is not None


def _normalize_ipv6(host: str) -> str | None:
    bare, percent, zone = host.partition("%")
    try:
        return f"{ipaddress.IPv6Address(bare)}{percent}{zone}"
    except ValueError:
        return None
