"""Rules 22, 23 and 32: hanging transactions, unavailable inputs, and series left out of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from offsetwatch.formatting import format_count, format_moment
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.input_visibility import NO_ANSWER_REASONS
from offsetwatch.judge.text_formats import build_examples, build_time_item, format_names
from offsetwatch.model.findings import (
    RECORDS,
    Evidence,
    EvidenceItem,
    Finding,
    FindingName,
    Severity,
)
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    OPEN_TRANSACTION,
    REST_OFFSETS,
    SOURCE_END,
    Frozen,
    InputId,
    build_rest_offsets_input,
)
from offsetwatch.model.topology import Topology
from offsetwatch.state.connect.connect_cluster import UNREADABLE_REASONS
from offsetwatch.state.connect.rest_offsets import find_polled_connectors, is_replaced_by_rest
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import DroppedSeries, InputView, SeriesGroup, SeriesOwner, Snapshot


class KafkaInputs:
    """Inputs of a snapshot by the Kafka cluster that they are read from."""

    def __init__(self, snapshot: Snapshot, without: frozenset[InputId]) -> None:
        self._of: dict[str, list[InputView]] = {}
        self._groups = [
            (view, _find_group_clusters(view.id, snapshot.topology))
            for view in snapshot.inputs
            if view.id.kind == GROUPS and view.last_reason in NO_ANSWER_REASONS and not view.up
        ]
        for view in snapshot.inputs:
            if view.id.kafka and view.id not in without:
                self._of.setdefault(view.id.kafka, []).append(view)

    def silent(self) -> dict[str, list[InputView]]:
        """Return the clusters of which no input answers, log ends first.

        A single topic may time out on a healthy cluster: without log ends, every input has to fail
        to connect. Consumer groups are read from several clusters, so they are listed under one of
        them.
        """
        silent_inputs = {
            kafka: sorted(views, key=lambda view: view.id.kind != LOG_ENDS)
            for kafka, views in self._of.items()
            if _is_silent(views)
        }
        for view, kafkas in self._groups:
            for kafka in sorted(kafkas & silent_inputs.keys())[:1]:
                silent_inputs[kafka].append(view)
        return silent_inputs


def describe_silence(views: list[InputView]) -> str:
    """Return since when inputs do not answer, in words."""
    read_at = [view.last_success_at for view in views if view.last_success_at is not None]
    return (
        f"has not answered since {format_moment(max(read_at))}" if read_at else "has never answered"
    )


def find_affected_flows(topology: Topology, kafka: str) -> list[str]:
    """Return the flows that cannot be judged without a Kafka cluster, as `source->target`."""
    homes = {topic.connect_cluster for topic in topology.offsets_topics if topic.at.kafka == kafka}
    return sorted(
        {
            f"{flow.source}->{flow.target}"
            for flow in topology.flows
            if kafka in {flow.upstream, flow.downstream}
            or flow.connect_cluster in homes
            or (flow.offset_syncs is not None and flow.offset_syncs.kafka == kafka)
        }
    )


def _is_silent(views: list[InputView]) -> bool:
    failing = [view for view in views if not (view.up and view.live)]
    reasons = {view.last_reason for view in failing} - {None}
    enough = (
        NO_ANSWER_REASONS if any(view.id.kind == LOG_ENDS for view in views) else {"unreachable"}
    )
    return len(failing) == len(views) and bool(reasons) and reasons <= enough


def _find_group_clusters(input_id: InputId, topology: Topology) -> set[str]:
    """Return the clusters on which an input reads groups: those of sinks, or of a flow."""
    clusters: set[str | None] = set()
    if not input_id.source:
        clusters |= {
            sink.kafka
            for sink in topology.sinks
            if sink.connect_cluster == input_id.connect_cluster
        }
    for flow in topology.flows:
        if build_groups_input(flow.key) == input_id:
            clusters |= {flow.upstream, flow.downstream}
    return {kafka for kafka in clusters if kafka is not None}


FAILURES_MIN: Final = 3
NAMED_MAX: Final = 5  # connectors or partitions in one finding
# Without these no metric tells how far a connector is; of the others another one does.
_NEEDED_GROUPS: Final = frozenset(
    {
        SeriesGroup.SOURCE_PARTITIONS,
        SeriesGroup.SINK_PARTITIONS,
        SeriesGroup.TOPICS,
        SeriesGroup.CONNECTORS,
    }
)
# What may be missing for a while where everything is new: there is no commit yet.
_LATE_REASONS: Final = frozenset({"topic_not_settled", "not_found"})


def find_hanging_transactions(context: RuleContext) -> Iterator[Finding]:
    """Rule 22: an open transaction on an internal topic hides what was written after it began, from
    us and from a worker that is started.
    """
    offsets_topics = context.snapshot.topology.offsets_topics
    clusters = {InputId.of_tail(topic.at): topic.connect_cluster for topic in offsets_topics}
    for view in context.snapshot.inputs:
        frozen = _select_frozen(view, in_transaction=True)
        if frozen:  # whatever the last attempt came to
            hidden = sum(partition.hidden for partition in frozen)
            yield context.found(
                FindingName.HANGING_TRANSACTION,
                Severity.CRITICAL,
                (clusters.get(view.id, ""), None),
                f"Topic {view.id.input} has a hanging transaction, which hides all later offsets: "
                "workers that start wait for its end.",
                subject=view.id.input,
                evidence=(
                    *_build_partition_evidence(frozen),
                    EvidenceItem("hidden", hidden, RECORDS),
                ),
            )


def find_down_inputs(context: RuleContext) -> Iterator[Finding]:
    """Rule 23: something that we read has failed for an interval, three times in a row or for so
    long that what it reported is outdated. What it would show is not known, neither good nor bad.
    """
    extra = {InputId.of_tail(status.at) for status in context.snapshot.topology.statuses}
    extra -= {InputId.of_tail(topic) for topic in context.snapshot.topology.awaited()}
    unanswered: dict[str, list[tuple[str, InputView]]] = {}
    rest = {
        build_rest_offsets_input(polled.connect_cluster, polled.connector): polled
        for polled in context.snapshot.by_rest
    }
    silent = KafkaInputs(context.snapshot, frozenset(extra)).silent()
    of_silent = {view.id: kafka for kafka, views in silent.items() for view in views}
    lost: set[str] = set()
    for view in context.snapshot.inputs:
        if view.id in extra or not is_down(context, view):
            continue
        if view.id.kind == SOURCE_END and view.last_reason in NO_ANSWER_REASONS:
            continue  # rule 40
        if view.id in of_silent:
            lost.add(of_silent[view.id])
            continue
        if view.id.kind == REST_OFFSETS:
            polled = rest.get(view.id)
            if polled and context.visibility.states_of(polled.connect_cluster)[1] is None:
                unanswered.setdefault(polled.connect_cluster, []).append((polled.connector, view))
            continue
        cluster = view.id.connect_cluster if view.id.kind in {CONNECT_REST, GROUPS} else ""
        since = view.last_success_at
        named = view.id.in_words
        text = (
            f"{named[0].upper()}{named[1:]} "
            f"{_describe_trouble(view)}.{_describe_fallback(context, view)}"
        )
        severity = Severity.INFO if _can_do_without(context, view) else Severity.WARNING
        if view.id.kind == CONNECT_REST and view.last_reason in NO_ANSWER_REASONS:
            text, severity = _describe_silent_connect_cluster(context, view), Severity.CRITICAL
        yield context.found(
            FindingName.INPUT_DOWN,
            severity,
            (cluster, None),
            text,
            subject=f"{view.id.kind} {view.id.input}",
            evidence=(
                EvidenceItem("reason", view.last_reason or "stale"),
                EvidenceItem("last read", "never")
                if since is None
                else build_time_item("last read", since),
                *((EvidenceItem("error", view.last_error),) if view.last_error else ()),
                *_build_unread_evidence(view),
                *_build_partition_evidence(_select_frozen(view, in_transaction=False)),
            ),
        )

    for kafka in sorted(lost):
        yield _build_silent_kafka_finding(context, kafka, silent[kafka])
    for cluster, views in unanswered.items():
        # After an outage of all of REST the states are polled again before the offsets are.
        if context.lasts(REST_OFFSETS, (cluster, "")) >= context.settings.patience_s:
            yield _build_unread_rest_offsets_finding(context, cluster, views)


def find_dropped_series(context: RuleContext) -> Iterator[Finding]:
    """Rule 32: a limit leaves series out of the metrics; what they would show is in the API."""
    by_limit: dict[str, list[DroppedSeries]] = {}
    for dropped in context.snapshot.left_out:
        by_limit.setdefault(dropped.limit, []).append(dropped)
    for limit, series in sorted(by_limit.items()):
        needed = any(dropped.group in _NEEDED_GROUPS for dropped in series)
        yield context.found(
            FindingName.SERIES_DROPPED,
            Severity.WARNING if needed else Severity.INFO,
            ("", None),
            f"Metrics leave out {format_names(value.group for value in series)} beyond "
            f"limits.{limit}; the API and the command line show them.",
            subject=limit,
            evidence=tuple(
                item for dropped in series for item in _build_dropped_series_evidence(dropped)
            ),
        )


def _build_dropped_series_evidence(dropped_series: DroppedSeries) -> Evidence:
    owners = EvidenceItem(
        dropped_series.group, format_names(map(_format_owner, sorted(dropped_series.owners)))
    )
    if dropped_series.series is None:
        return (owners,)
    return (
        owners,
        EvidenceItem(f"{dropped_series.group}, series", dropped_series.series, "series"),
    )


def _format_owner(owner: SeriesOwner) -> str:
    cluster, *names = owner
    return f"{cluster}/{'->'.join(names)}"


def _build_silent_kafka_finding(
    context: RuleContext, kafka: str, views: list[InputView]
) -> Finding:
    """Return one finding of all inputs of a Kafka cluster, by the key of its log ends."""
    address = context.settings.address("kafka", kafka)
    flows = find_affected_flows(context.snapshot.topology, kafka)
    effect = f"; replication {format_names(flows)} cannot be judged" if flows else ""
    needed = any(not _can_do_without(context, view) for view in views)
    return context.found(
        FindingName.INPUT_DOWN,
        Severity.CRITICAL if needed else Severity.INFO,
        ("", None),
        f"Kafka cluster {kafka}{address} {describe_silence(views)}{effect}.",
        subject=f"{views[0].id.kind} {views[0].id.input}",
        evidence=build_examples(
            [EvidenceItem(view.id.in_words, view.last_error or "no answer") for view in views]
        ),
    )


def _describe_silent_connect_cluster(context: RuleContext, view: InputView) -> str:
    cluster = view.id.connect_cluster
    address = context.settings.address("connect", cluster)
    return (
        f"Connect cluster {cluster}{address} {describe_silence([view])}; the states of its "
        f"connectors are unknown.{_describe_fallback(context, view)}"
    )


def _build_unread_rest_offsets_finding(
    context: RuleContext, cluster: str, views: list[tuple[str, InputView]]
) -> Finding:
    return context.found(
        FindingName.INPUT_DOWN,
        Severity.WARNING,
        (cluster, None),
        f"Connect cluster {cluster}: the offsets of {format_count(len(views), 'connector')} "
        f"cannot be read: {views[0][1].last_error or 'no answer'}.",
        subject=f"{REST_OFFSETS} {cluster}",
        evidence=tuple(
            EvidenceItem(connector, view.last_error or "stale")
            for connector, view in views[:NAMED_MAX]
        ),
    )


def _describe_fallback(context: RuleContext, view: InputView) -> str:
    """Return what is shown although an input is down, in a sentence with a blank before it."""
    cluster, read_at = view.id.connect_cluster, view.last_success_at
    if view.id.kind == CONNECT_REST:
        groups = any(group.connect_cluster == cluster for group in context.snapshot.groups)
        if not groups or read_at is None:
            return ""
        return (
            " Failover costs are for the topics that MirrorMaker's configuration of "
            f"{format_moment(read_at)} names."
        )
    count = len(find_polled_connectors(context.snapshot, view))
    named = format_count(count, "connector")
    return f" The offsets of {named} come from REST instead." if count else ""


def _describe_trouble(view: InputView) -> str:
    unreadable = _select_frozen(view, in_transaction=False)
    if unreadable and view.live:
        return (
            f"has {format_count(len(unreadable), 'partition')} that cannot be read; the others can"
        )
    if view.up and view.tail is not None and view.tail.behind:
        return "is written faster than offsetwatch reads it"
    return f"cannot be read: {view.last_error or 'no answer'}"


def _build_unread_evidence(view: InputView) -> Evidence:
    behind = 0 if view.tail is None or not view.up else view.tail.behind
    return (EvidenceItem("left to read", behind, RECORDS),) if behind else ()


def _build_partition_evidence(frozen: list[Frozen]) -> Evidence:
    return tuple(
        EvidenceItem(f"partition {partition.partition}", partition.detail)
        for partition in frozen[:NAMED_MAX]
    )


def _select_frozen(view: InputView, *, in_transaction: bool) -> list[Frozen]:
    """Return the partitions of a tail that a transaction hides, or else those unreadable."""
    return [
        partition
        for partition in (() if view.tail is None else view.tail.frozen)
        if (partition.reason == OPEN_TRANSACTION) is in_transaction
    ]


def is_down(context: RuleContext, view: InputView) -> bool:
    """Check whether an input has failed for an interval, three times in a row, or is stale."""
    subject = f"{view.id.kind} {view.id.input}"
    total = sum(count for _, count in view.errors)
    if view.last_reason == OPEN_TRANSACTION:
        return False  # rule 22
    # A tail that is not caught up is slow, not down.
    begun = view.last_success_at is not None and (view.tail is None or view.tail.caught_up)
    stale = begun and not view.live
    failing = not view.up and view.last_reason is not None
    if not (stale or failing):
        return False
    late = view.last_reason in _LATE_REASONS
    # The one that it is down with is the first. That a topic was not there is another trouble than
    # that its tail begins again, once, when it is there again.
    key = ("input", "", "", f"{subject} is not there" if late else subject)
    moment, before = context.memory.held.since(key, context.now, float(total - 1))
    lasts = context.now - moment
    if late:
        return not _is_half_reset(context, view) and lasts >= context.settings.patience_s
    return lasts >= context.settings.interval_s and (
        stale or bool(_select_frozen(view, in_transaction=False)) or total - before >= FAILURES_MIN
    )


def _is_half_reset(context: RuleContext, view: InputView) -> bool:
    """A topic of offset syncs that was there and is gone: rule 15 says so, or a person reset it."""
    key = ("gone", "", "", view.id.input)
    synced = any(InputId.of_tail(topic) == view.id for topic, _ in context.memory.synced)
    if not synced and not context.memory.held.has(key):
        return False
    context.memory.held.since(key, context.now)  # so that a restart knows that it was there
    return True


def _can_do_without(context: RuleContext, view: InputView) -> bool:
    if is_replaced_by_rest(context.snapshot, view):
        return True
    listings = context.snapshot.topology.listings
    listed = {InputId.of_tail(topic) for listing in listings for topic in listing.topics()}
    return view.id in listed and view.last_reason in UNREADABLE_REASONS
