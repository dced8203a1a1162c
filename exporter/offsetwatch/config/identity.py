"""Hashes that identify the clusters of a configuration, to compare two configurations. Pure.

A daemon sends them with its documents, and a command compares them with its own file. Another
daemon may listen at the address, or the daemon may have read the file before it was changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, unquote

from offsetwatch.config.database_url import parse_database_url
from offsetwatch.config.schema.root import Config
from offsetwatch.config.schema.sources import Source

_DIGITS: Final = 8


def format_cluster_hashes(config: Config) -> str:
    """Return each cluster with a hash of its addresses: `kafka/east=1a2b3c4d connect/lab=5e6f7081`.

    The text contains no address and fits a header.
    """
    return " ".join(
        f"{kind}/{quote(name, safe='')}={hashlib.sha256(addresses.encode()).hexdigest()[:_DIGITS]}"
        for kind, name, addresses in sorted(_list_addresses(config))
    )


def format_source_address(source: Source) -> str:
    """Return where a source is, as the configuration says, without users and secrets."""
    host, port, database = source.host, source.port, source.database
    if source.dsn is not None:
        url = parse_database_url(source.dsn.get_secret_value())
        host, port, database = url.host, url.port, url.database
    return repr((source.kind, source.dsn_file, host, port, database, source.folder))


def describe_differences(own: str, theirs: str) -> tuple[str, ...]:
    """Return in words how `theirs` differs; an empty tuple if both are about the same clusters."""
    mine, others = _parse_hashes(own), _parse_hashes(theirs)
    texts = []
    for name in sorted({*mine, *others}):
        kind, _, quoted = name.partition("/")
        if name not in others:
            texts.append(f"{kind} {unquote(quoted)} is not in its configuration")
        elif name not in mine:
            texts.append(f"{kind} {unquote(quoted)} is in its configuration alone")
        elif mine[name] != others[name]:
            texts.append(f"{kind} {unquote(quoted)} is at another address")
    return tuple(texts)


def _list_addresses(config: Config) -> Iterator[tuple[str, str, str]]:
    for name, kafka in config.kafka.items():
        yield "kafka", name, ",".join(sorted(kafka.addresses))
    for connect in config.connect:
        topics = (connect.kafka, connect.offsets_topic)
        yield "connect", connect.name, repr((sorted(connect.worker_urls), topics))


def _parse_hashes(clusters: str) -> dict[str, str]:
    pairs = (cluster.partition("=") for cluster in clusters.split())
    return {name: digits for name, _, digits in pairs}
