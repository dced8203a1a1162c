"""Kinds of failure by the beginning of a call in the trace, `package.Class.method`.

A call can only forbid a skip. Reading from a socket is no proof that the socket failed, but it is
reason enough not to blame a record.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.classify.throwables.kinds import FailureKind

PLACES: Final[tuple[tuple[str, FailureKind], ...]] = (
    # Clients of schema registries: a converter that fails in one has not come to the record yet.
    ("io.confluent.kafka.schemaregistry.client.rest.", FailureKind.REGISTRY_DOWN),
    ("io.confluent.kafka.schemaregistry.client.security.", FailureKind.REGISTRY_DOWN),
    ("io.apicurio.registry.resolver.", FailureKind.REGISTRY_DOWN),
    ("io.apicurio.registry.rest.client.", FailureKind.REGISTRY_DOWN),
    ("io.apicurio.rest.client.", FailureKind.REGISTRY_DOWN),
    (
        "com.amazonaws.services.schemaregistry.common.AWSSchemaRegistryClient.",
        FailureKind.REGISTRY_DOWN,
    ),
    ("software.amazon.awssdk.services.glue.", FailureKind.REGISTRY_DOWN),
    # Sockets, and what stands right above them.
    ("java.net.AbstractPlainSocketImpl.", FailureKind.CONNECTIVITY),
    ("java.net.InetAddress", FailureKind.CONNECTIVITY),
    ("java.net.PlainSocketImpl.", FailureKind.CONNECTIVITY),
    ("java.net.Socket", FailureKind.CONNECTIVITY),
    ("jdk.internal.net.", FailureKind.CONNECTIVITY),
    ("sun.net.www.", FailureKind.CONNECTIVITY),
    ("sun.nio.ch.Net.", FailureKind.CONNECTIVITY),
    ("sun.nio.ch.NioSocketImpl.", FailureKind.CONNECTIVITY),
    ("sun.nio.ch.SocketChannelImpl.", FailureKind.CONNECTIVITY),
    ("sun.nio.ch.SocketDispatcher.", FailureKind.CONNECTIVITY),
    ("sun.security.ssl.", FailureKind.CONNECTIVITY),
)
