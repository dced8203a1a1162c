"""Checks of `doctor` for remediation: the journal topic, quarantine, and linked Strimzi resources.

Nothing is changed. The checks raise ClientError.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetwatch.cli.inspect.diagnosis import DoctorCheck
from offsetwatch.clients.kafka.journal_topic import find_unmet_requirements, read_journal_topic
from offsetwatch.clients.kubernetes.reader import STRIMZI, KubeReader
from offsetwatch.config import Connect
from offsetwatch.remedy.drivers.quarantine.stores import CombinedQuarantine
from offsetwatch.remedy.drivers.strimzi.resources import (
    KAFKA_CONNECTORS,
    KAFKA_MIRROR_MAKERS,
    KINDS,
    ConnectClusterResource,
    build_kube_reader,
    find_gitops_tool,
    list_connector_resources,
    read_cluster_resource,
)
from offsetwatch.remedy.replicas.replica import ReplicaSettings


def check_journal(settings: ReplicaSettings) -> Iterator[DoctorCheck]:
    """Check whether the journal topic exists and meets the requirements."""
    about = f"journal {settings.kafka}/{settings.wanted.topic}"
    found = read_journal_topic(settings.kafka, settings.properties, settings.wanted.topic)
    if found is None:
        said = "there is no such topic: no replica leads, and remediation does nothing"
        yield DoctorCheck(about, "topic", "fail", said, "offsetwatch journal create")
        return
    wrong = list(find_unmet_requirements(found, settings.wanted))
    for said in wrong:
        yield DoctorCheck(
            about, "topic", "fail", said, "docs/high-availability.md says how it must be"
        )
    if not wrong:
        yield DoctorCheck(about, "topic", "ok", f"{found.replication} replica(s), kept for ever")


def check_quarantine(quarantine: CombinedQuarantine) -> Iterator[DoctorCheck]:
    """Check whether the quarantine would take a copy. A topic that is missing is created then."""
    about, problems = f"quarantine {quarantine.name}", quarantine.problems()
    for problem in problems:
        said = f"no record is skipped: {problem}"
        yield DoctorCheck(about, "topic", "fail", said, "docs/remediation.md says how it must be")
    if not problems:
        yield DoctorCheck(about, "topic", "ok", "it takes copies, or is created for the first")


def check_strimzi(connect: Connect, *, acts: bool) -> Iterator[DoctorCheck]:
    """Check whether connectors can be changed through their Strimzi resources.

    `acts`: remediation is configured to change connectors.
    """
    assert connect.strimzi is not None, "only of entries that are linked"
    yield from _check_resource(build_kube_reader(connect.strimzi), connect, acts=acts)


def _check_resource(read: KubeReader, connect: Connect, *, acts: bool) -> Iterator[DoctorCheck]:
    strimzi, about = connect.strimzi, f"connect {connect.name}"
    assert strimzi is not None
    cluster = read_cluster_resource(read, strimzi)
    name = f"{KINDS[cluster.plural]} {strimzi.namespace}/{strimzi.name}"
    if cluster.unmanaged is not None:
        advice = "remove strimzi from the entry: its connectors are changed over REST"
        yield DoctorCheck(about, "strimzi", "fail", cluster.unmanaged, advice)
        return
    found = list_connector_resources(read, cluster, strimzi.namespace, strimzi.name)
    yield DoctorCheck(about, "strimzi", "ok", f"{name}, {len(found)} connector(s)")
    theirs = sorted(
        connector
        for connector, connector_resource in found.items()
        if find_gitops_tool(connector_resource.document)
    )
    if theirs:
        said = f"GitOps owns {', '.join(theirs[:5])}{' and more' if len(theirs) > 5 else ''}"
        yield DoctorCheck(
            about, "strimzi", "warn" if acts else "ok", f"{said}: these are left alone"
        )
    yield _check_rights(read, cluster, connect, acts=acts)


def _check_rights(
    read: KubeReader, cluster: ConnectClusterResource, connect: Connect, *, acts: bool
) -> DoctorCheck:
    strimzi = connect.strimzi
    assert strimzi is not None
    owner = KAFKA_MIRROR_MAKERS if cluster.plural == KAFKA_MIRROR_MAKERS else KAFKA_CONNECTORS
    asked = (
        ("patch", STRIMZI, owner),
        ("get", "", "configmaps"),
        ("create", "", "configmaps"),
        ("patch", "", "configmaps"),
    )
    missing = [
        f"{verb} {plural}"
        for verb, group, plural in asked
        if not read.may(verb, group, plural, strimzi.namespace)
    ]
    about, check = f"connect {connect.name}", "strimzi rights"
    if not missing:
        return DoctorCheck(about, check, "ok", f"offsets in {strimzi.namespace} may be changed")
    said = (
        f"no right in {strimzi.namespace} to {', '.join(missing)}: offsets are not listed "
        "or changed"
    )
    advice = "docs/strimzi.md has the rights; of the chart: strimzi.offsets.enabled"
    return DoctorCheck(about, check, "warn" if acts else "ok", said, advice if acts else None)
