"""What doctor looks at where remedies are made: the journal that replicas share, and the resources
of Strimzi that entries are linked to. Changes nothing. Raises ClientError.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetwatch.cli.inspect.diagnosis import Line
from offsetwatch.clients.kafka.journal_topic import topic_of, weaknesses
from offsetwatch.clients.kubernetes.reader import STRIMZI, KubeReader
from offsetwatch.config import Connect
from offsetwatch.remedy.drivers.strimzi.ownership import Cluster, cluster_of, owners, reader_of
from offsetwatch.remedy.drivers.strimzi.resource_state import CONNECTORS, KINDS, MIRRORS, gitops
from offsetwatch.remedy.replicas.replica import Settings


def journal(settings: Settings) -> Iterator[Line]:
    """Whether the topic is there, and fit to be a journal."""
    about = f"journal {settings.kafka}/{settings.wanted.topic}"
    found = topic_of(settings.kafka, settings.properties, settings.wanted.topic)
    if found is None:
        said = "there is no such topic: no replica leads, and remediation does nothing"
        yield Line(about, "topic", "fail", said, "offsetwatch journal create")
        return
    wrong = list(weaknesses(found, settings.wanted))
    for said in wrong:
        yield Line(about, "topic", "fail", said, "docs/high-availability.md says how it must be")
    if not wrong:
        yield Line(about, "topic", "ok", f"{found.replication} replica(s), kept for ever")


def strimzi(connect: Connect, *, acts: bool) -> Iterator[Line]:
    """Whether connectors can be changed through their resources; `acts`: remedies would."""
    assert connect.strimzi is not None, "only of entries that are linked"
    yield from _linked(reader_of(connect.strimzi), connect, acts=acts)


def _linked(read: KubeReader, connect: Connect, *, acts: bool) -> Iterator[Line]:
    at, about = connect.strimzi, f"connect {connect.name}"
    assert at is not None
    cluster = cluster_of(read, at)
    name = f"{KINDS[cluster.plural]} {at.namespace}/{at.name}"
    if cluster.unmanaged is not None:
        advice = "remove strimzi from the entry: its connectors are changed over REST"
        yield Line(about, "strimzi", "fail", cluster.unmanaged, advice)
        return
    found = owners(read, cluster, at.namespace, at.name)
    yield Line(about, "strimzi", "ok", f"{name}, {len(found)} connector(s)")
    theirs = sorted(connector for connector, seen in found.items() if gitops(seen.document))
    if theirs:
        said = f"GitOps owns {', '.join(theirs[:5])}{' and more' if len(theirs) > 5 else ''}"
        yield Line(about, "strimzi", "warn" if acts else "ok", f"{said}: these are left alone")
    yield _rights(read, cluster, connect, acts=acts)


def _rights(read: KubeReader, cluster: Cluster, connect: Connect, *, acts: bool) -> Line:
    at = connect.strimzi
    assert at is not None
    owner = MIRRORS if cluster.plural == MIRRORS else CONNECTORS
    asked = (
        ("patch", STRIMZI, owner),
        ("get", "", "configmaps"),
        ("create", "", "configmaps"),
        ("patch", "", "configmaps"),
    )
    missing = [
        f"{verb} {plural}"
        for verb, group, plural in asked
        if not read.may(verb, group, plural, at.namespace)
    ]
    about, check = f"connect {connect.name}", "strimzi rights"
    if not missing:
        return Line(about, check, "ok", f"offsets in {at.namespace} may be changed")
    said = f"no right in {at.namespace} to {', '.join(missing)}: offsets are not listed or changed"
    advice = "docs/strimzi.md has the rights; of the chart: strimzi.offsets.enabled"
    return Line(about, check, "warn" if acts else "ok", said, advice if acts else None)
