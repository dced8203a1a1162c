"""Rules 27 to 31, 33 and 41: Connect's REST API is incomplete or contradicts its topics."""

from __future__ import annotations

from collections.abc import Iterator

from offsetwatch.formatting import format_count, format_moment
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.input_visibility import pause_state_of
from offsetwatch.judge.text_formats import build_examples, build_time_item, format_names
from offsetwatch.model.connectors import UNKNOWN_STATE
from offsetwatch.model.findings import Evidence, EvidenceItem, Finding, FindingName, Severity
from offsetwatch.state.connect.rest_consistency import DIFFERING_ROUNDS_MIN
from offsetwatch.state.snapshot import (
    AssignmentDoubt,
    ConnectorListView,
    ConnectorWithoutState,
    UnlistedConnector,
)
from offsetwatch.state.snapshot_index import ConnectorKey


def find_changed_connect_clusters(context: RuleContext) -> Iterator[Finding]:
    """Rule 27: the address of a Connect cluster leads to another one: a worker says that it uses
    another Kafka cluster, or it lists none of the connectors that are at work. Or it leads to
    several: connectors are listed, and are not, by turns.
    """
    for view in context.snapshot.lists:
        before, now = view.kafka_cluster_ids
        if view.believed_at is not None and now is None:
            if view.alternating:
                yield _build_alternating_lists_finding(context, view)
            continue
        evidence = build_examples(
            [_build_work_evidence(unlisted, unlisted.connector) for unlisted in view.unlisted]
        )
        other = "which lists none of the connectors that work here"
        if now is not None:
            other = "whose workers use another Kafka cluster"
            evidence = (
                EvidenceItem("kafka_cluster_id before", before or "unknown"),
                EvidenceItem("kafka_cluster_id now", now or "unknown"),
                *evidence,
            )
        yield context.found(
            FindingName.CONNECT_CLUSTER_CHANGED,
            Severity.CRITICAL,
            (view.connect_cluster, None),
            f"Connect cluster {view.connect_cluster}: its address now leads to another Connect "
            f"cluster, {other}. The states of its connectors are unknown.",
            evidence=evidence,
        )


def _build_alternating_lists_finding(context: RuleContext, view: ConnectorListView) -> Finding:
    return context.found(
        FindingName.CONNECT_CLUSTER_CHANGED,
        Severity.CRITICAL,
        (view.connect_cluster, None),
        f"Connect cluster {view.connect_cluster} alternates between different lists of connectors: "
        "its address leads to several Connect clusters, or its workers disagree.",
        evidence=(EvidenceItem("listed only at times", format_names(view.alternating)),),
    )


def find_missing_connector_states(context: RuleContext) -> Iterator[Finding]:
    """Rule 28: for an interval Connect has listed a connector without its state, or that of a task;
    or for ten intervals without its configuration. A new one has no state for some seconds.
    """
    for view in context.snapshot.lists:
        for connector in view.without_state:
            key = (view.connect_cluster, connector.connector)
            of_tasks = _format_tasks(connector)
            known_else = "Its offsets and its lag are still known."
            if connector.connector in view.without_configuration:
                known_else = "Its configuration is missing too, so its lag is unknown."
            if context.lasts("stateless", key) < context.settings.interval_s:
                continue
            yield context.found(
                FindingName.CONNECTOR_STATE_MISSING,
                Severity.WARNING,
                key,
                f"has no state {of_tasks}in Connect, which lists it: whether it runs or has failed "
                f"is unknown. {known_else}",
                evidence=(_build_last_state_item(connector.seen_at),),
            )
        stateless = {connector.connector for connector in view.without_state}
        for name, read_at in view.without_configuration.items():
            connector_view = context.index.connectors.get((view.connect_cluster, name))
            listed = connector_view is not None and connector_view.state != UNKNOWN_STATE
            if listed and name not in stateless:
                yield context.found(
                    FindingName.CONNECTOR_STATE_MISSING,
                    Severity.WARNING,
                    (view.connect_cluster, name),
                    "has no configuration in Connect, which lists it: its topics and its lag are "
                    "unknown.",
                    evidence=(build_time_item("last configuration", read_at),),
                )


def find_unlisted_connectors(context: RuleContext) -> Iterator[Finding]:
    """Rule 29: for two intervals Connect has not listed a connector that is at work. Where it lists
    none of them, rule 27 says so; where another Connect cluster lists it, rule 20.
    """
    keys = {
        (view.connect_cluster, unlisted.connector)
        for view in context.snapshot.lists
        for unlisted in view.unlisted
    }
    others = {name for _, name in context.index.connectors.keys() - keys}
    for view in context.snapshot.lists:
        if view.believed_at is None:
            continue
        for unlisted in view.unlisted:
            long = context.now - unlisted.since >= 2 * context.settings.interval_s
            if not long or (unlisted.seen_at is None and unlisted.connector in others):
                continue
            works = f"the status topic reports it as {unlisted.status}"
            if unlisted.committed_at is not None:
                works = "still commits"
            yield context.found(
                FindingName.CONNECTOR_NOT_LISTED,
                Severity.WARNING,
                (view.connect_cluster, unlisted.connector),
                f"is missing from Connect's list of connectors, and {works}.",
                evidence=(
                    build_time_item("not listed since", unlisted.since),
                    _build_last_state_item(unlisted.seen_at),
                    *_build_work_evidence(unlisted),
                ),
            )


def find_differing_rest_offsets(context: RuleContext) -> Iterator[Finding]:
    """Rule 30: for three rounds in a row REST gave other offsets of a connector than the offsets
    topic has shown.
    """
    for key, check in context.snapshot.rest_checks.items():
        if check.rounds < DIFFERING_ROUNDS_MIN:
            continue
        topic = context.index.offsets_topic_of(key)
        yield context.found(
            FindingName.REST_OFFSETS_DIFFER,
            Severity.WARNING,
            key,
            f"has had other offsets over REST than in {topic or 'its offsets topic'} since "
            f"{format_moment(check.since)}: this may be the wrong topic, or the address of another "
            "Connect cluster. Its position and its lag may be wrong.",
            evidence=(
                *build_examples(
                    [
                        (
                            EvidenceItem(f"{identity} over REST", rest),
                            EvidenceItem(f"{identity} in the topic", topic),
                        )
                        for identity, rest, topic in check.examples
                    ]
                ),
                build_time_item("first differed", check.since),
                EvidenceItem(
                    "compare", "connect[].offsets_topic with the workers' offset.storage.topic"
                ),
            ),
        )


def find_differing_rest_states(context: RuleContext) -> Iterator[Finding]:
    """Rule 33: in three answers in a row REST gave another state of a connector or a task than its
    status topic, which had no newer record meanwhile.
    """
    topics = {
        status.connect_cluster: str(status.at) for status in context.snapshot.topology.statuses
    }
    for key, difference in context.snapshot.state_doubts.items():
        subject = "connector" if difference.task is None else f"task {difference.task}"
        topic = topics.get(key[0], "its status topic")
        yield context.found(
            FindingName.REST_STATES_DIFFER,
            Severity.WARNING,
            key,
            f"has had other states over REST than in {topic} since "
            f"{format_moment(difference.since)}: this may be the status topic of another "
            "Connect cluster. Its failures are known from REST alone.",
            evidence=(
                EvidenceItem(f"{subject} over REST", difference.rest),
                EvidenceItem(f"{subject} in the topic", difference.topic),
                build_time_item("first differed", difference.since),
                EvidenceItem(
                    "compare", "connect[].status_topic with the workers' status.storage.topic"
                ),
            ),
        )


def find_differing_rest_tasks(context: RuleContext) -> Iterator[Finding]:
    """Rule 41: three reports in a row of a MirrorMaker's tasks lack partitions that it commits, or
    have another number of tasks than Connect lists, or topics that its configuration does not
    select; the latter not of one that a person has stopped or paused, which is configured later.
    """
    for key, doubt in context.snapshot.assignment_doubts.items():
        connector = context.index.connectors.get(key)
        if doubt.topics and not (connector is not None and pause_state_of(connector)):
            yield _build_rejected_topics_finding(context, key, doubt)
        if not doubt.partitions and doubt.tasks is None:
            continue
        counts: Evidence = ()
        if doubt.tasks is not None:
            counts = (
                EvidenceItem("tasks by GET /connectors/{name}/tasks", doubt.tasks[0], "tasks"),
                EvidenceItem("tasks in the list of connectors", doubt.tasks[1], "tasks"),
            )
        yield context.found(
            FindingName.REST_TASKS_DIFFER,
            Severity.WARNING,
            key,
            f"has had other tasks over REST than it works with since {format_moment(doubt.since)}: "
            "partitions that it copies may be missing, and others may be shown as waiting.",
            evidence=(
                *build_examples(
                    [
                        EvidenceItem(
                            "committed without a task", f"{partition.topic}-{partition.partition}"
                        )
                        for partition in doubt.partitions
                    ]
                ),
                *counts,
                build_time_item("first differed", doubt.since),
            ),
        )


def _build_rejected_topics_finding(
    context: RuleContext, key: ConnectorKey, doubt: AssignmentDoubt
) -> Finding:
    return context.found(
        FindingName.REST_TASKS_DIFFER,
        Severity.WARNING,
        key,
        f"has had tasks for {format_count(len(doubt.topics), 'topic')} that its configuration does "
        f"not select since {format_moment(doubt.since)}: they go on with an earlier configuration "
        "until the connector is restarted.",
        subject="topics",
        evidence=(
            *build_examples([EvidenceItem("copied, not selected", name) for name in doubt.topics]),
            build_time_item("first differed", doubt.since),
            EvidenceItem("compare", "topics and topics.exclude with GET /connectors/{name}/tasks"),
        ),
    )


def find_doubtful_offsets_topics(context: RuleContext) -> Iterator[Finding]:
    """Rule 31: the offsets topic was found, not named, and a later look found another one too."""
    for cluster, doubt in context.snapshot.topic_doubts.items():
        if doubt is None:
            continue
        topic = context.index.offsets_topic_of((cluster, ""))
        yield context.found(
            FindingName.OFFSETS_TOPIC_DOUBTED,
            Severity.WARNING,
            (cluster, None),
            f"Connect cluster {cluster} may keep its offsets in another topic than {topic}, which "
            "offsetwatch reads: name the right one in connect[].offsets_topic.",
            evidence=(EvidenceItem("found now", doubt),),
        )


def _format_tasks(connector: ConnectorWithoutState) -> str:
    return f"of task {format_names(connector.tasks)} " if connector.tasks else ""


def _build_work_evidence(unlisted: UnlistedConnector, connector: str = "") -> Evidence:
    """Return what shows that a connector is at work, named after it where there are several."""
    named = f"{connector} " if connector else ""
    evidence = []
    if unlisted.committed_at is not None:
        evidence.append(build_time_item(f"{named}committed", unlisted.committed_at))
    if unlisted.status is not None:
        evidence.append(EvidenceItem(f"{named}state in the status topic", unlisted.status))
    return tuple(evidence)


def _build_last_state_item(seen_at: float | None) -> EvidenceItem:
    name = "state last reported"
    return EvidenceItem(name, "never") if seen_at is None else build_time_item(name, seen_at)
