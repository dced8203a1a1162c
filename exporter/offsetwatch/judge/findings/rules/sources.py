"""Rules 34 to 40: connectors and the ends of the databases and files that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from offsetwatch.formatting import format_count, format_moment, format_timespan
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.findings.rules.missing_inputs import describe_silence, is_down
from offsetwatch.judge.input_visibility import NO_ANSWER_REASONS, pause_state_of
from offsetwatch.judge.progress.cases import build_source_end_evidence
from offsetwatch.judge.text_formats import build_examples, build_time_item, format_names
from offsetwatch.model.connectors import has_running_task
from offsetwatch.model.findings import BYTES, Evidence, EvidenceItem, Finding, FindingName, Severity
from offsetwatch.model.observations import SOURCE_END
from offsetwatch.model.source_ends import SourceKind
from offsetwatch.state.snapshot import InputView, SourceEndView
from offsetwatch.state.snapshot_index import ConnectorKey

# Of intervals of sixty seconds these are an hour, in which an operator can act, and ten minutes.
NEAR_INTERVALS: Final = 60
VERY_NEAR_INTERVALS: Final = 10
# A task may commit what it had read before its database went down: a flush later it cannot.
DOWN_INTERVALS: Final = 2


def find_late_sources(context: RuleContext) -> Iterator[Finding]:
    """Rule 34: for three intervals changes have waited in a source for longer than usual: more than
    twice what one of a hundred samples of this hour of the week exceeds, plus a minute; where
    history has no samples, longer than the connector ever paused, for these hours of the week. Not
    of one that an operator has stopped or paused.
    """
    for key, views in _group_by_connector(context, _is_late(context)):
        if _is_at_rest(context, key) or not _lasts(context, "source_behind", key):
            continue
        since = min(view.behind_since or context.now for view in views)
        yield context.found(
            FindingName.SOURCE_BEHIND,
            Severity.WARNING,
            key,
            f"has not read what its source has had since {format_moment(since)}, and "
            f"{_describe_baseline(context, key)}.",
            evidence=_build_evidence(views),
        )


def find_near_source_retention(context: RuleContext) -> Iterator[Finding]:
    """Rule 35: the source is about to remove what a connector has not read. PostgreSQL no longer
    retains WAL for its slot, or by its present pace will not within sixty intervals, critical
    within ten. Or for an interval its binlog file has been the next one to be removed.
    """
    interval_s = context.settings.interval_s
    for key, views in _group_by_connector(context, lambda view: _is_near(view, interval_s)):
        if not _lasts(context, "retention", key, intervals=1):
            continue
        soonest = min(
            (view.headroom_s for view in views if view.headroom_s is not None), default=None
        )
        reasons = [view.retention_near for view in views if view.retention_near is not None]
        unreserved = any(
            view.retention_near is not None and view.kind == SourceKind.POSTGRESQL for view in views
        )
        very = soonest is not None and soonest < VERY_NEAR_INTERVALS * interval_s
        why = reasons[0] if reasons else "its server reaches the limit of WAL that it retains"
        when = "" if reasons or soonest is None else f" in about {format_timespan(soonest)}"
        yield context.found(
            FindingName.SOURCE_RETENTION_NEAR,
            Severity.CRITICAL if unreserved or very else Severity.WARNING,
            key,
            f"is about to lose changes{when}: {why}.",
            evidence=(
                *(
                    EvidenceItem(f"{view.label} headroom", view.headroom_bytes, BYTES)
                    for view in views[:1]
                    if view.headroom_bytes is not None
                ),
                *_build_evidence(views),
            ),
        )


def find_lost_source_positions(context: RuleContext) -> Iterator[Finding]:
    """Rule 36: the source no longer has what a connector needs to resume: its slot is gone or lost,
    its binlog was removed, or its offset lies before the position that the slot confirmed.
    """
    for key, views in _group_by_connector(
        context, lambda view: view.lost is not None and view.mismatch is None
    ):
        yield context.found(
            FindingName.SOURCE_POSITION_LOST,
            Severity.CRITICAL,
            key,
            f"cannot resume from its offset: {views[0].lost}.",
            evidence=_build_evidence(views),
        )


def find_source_positions_ahead(context: RuleContext) -> Iterator[Finding]:
    """Rule 37: for three intervals an offset has lain beyond the end of its source: the source was
    restored or replaced, or an operator altered the offset. Not of a table: its greatest value also
    falls when its last rows are deleted.
    """
    for key, views in _group_by_connector(context, lambda view: view.ahead > 0):
        if _lasts(context, "source_ahead", key):
            yield context.found(
                FindingName.SOURCE_POSITION_AHEAD,
                Severity.CRITICAL,
                key,
                f"has {format_count(len(views), 'offset')} beyond the end of its source, and "
                "does not read what is written before it: an operator altered the offset, or the "
                "source was restored.",
                evidence=_build_evidence(views),
            )


def find_inactive_slots(context: RuleContext) -> Iterator[Finding]:
    """Rule 38: for three intervals a connector and its tasks run, and no connection streams from
    its replication slot: PostgreSQL retains WAL for it that nothing reads.
    """
    for key, views in _group_by_connector(context, _has_inactive_slot):
        connector = context.index.connectors.get(key)
        if connector is None or not has_running_task(connector.state, connector.tasks):
            continue
        if _lasts(context, "slot", key):
            retained = max(view.retained_bytes or 0 for view in views)
            yield context.found(
                FindingName.SOURCE_SLOT_INACTIVE,
                Severity.WARNING,
                key,
                "runs, and nothing streams from its replication slot: its server retains "
                f"{format_count(retained, 'byte')} of WAL for it, and more with every change.",
                evidence=_build_evidence(views),
            )


def find_mismatched_sources(context: RuleContext) -> Iterator[Finding]:
    """Rule 39: for an interval an offset and the configured source have not belonged together:
    another server, another database, or a promoted standby.
    """
    for key, views in _group_by_connector(context, lambda view: view.mismatch is not None):
        if _lasts(context, "mismatch", key, intervals=1):
            yield context.found(
                FindingName.SOURCE_MISMATCH,
                Severity.CRITICAL,
                key,
                f"does not belong to source {views[0].source}: {views[0].mismatch}. Its lag is "
                "unknown.",
                evidence=_build_evidence(views),
            )


def find_down_sources(context: RuleContext) -> Iterator[Finding]:
    """Rule 40: for two intervals a source has not answered. A connector that reads it tries for
    ever, and its state is running; one that advances all the same reaches what offsetwatch does
    not.
    """
    readers: dict[str, set[ConnectorKey]] = {}
    for (cluster, connector, _), name in context.snapshot.source_names.items():
        readers.setdefault(name, set()).add((cluster, connector))
    for view in context.snapshot.inputs:
        if view.id.kind != SOURCE_END or view.last_reason not in NO_ANSWER_REASONS:
            continue
        if not is_down(context, view):
            continue
        name = view.id.source
        if _lasts(context, "down", ("", ""), name, intervals=DOWN_INTERVALS):
            yield _build_down_finding(context, view, sorted(readers.get(name, ())))


def _build_down_finding(
    context: RuleContext, view: InputView, readers: list[ConnectorKey]
) -> Finding:
    since = view.last_success_at
    advancing = [
        key
        for key in readers
        if since is not None and _advanced_after(context, key, since + context.settings.interval_s)
    ]
    running = [
        key
        for key in readers
        if key not in advancing
        and (connector := context.index.connectors.get(key)) is not None
        and connector.state == "running"
    ]
    names = format_names(name for _, name in running)
    effect = f"{names} cannot read it, and Connect reports them as running" if running else ""
    if advancing:
        effect = f"{format_names(name for _, name in advancing)} still advances: only offsetwatch "
        effect += "does not reach it"
    return context.found(
        FindingName.SOURCE_DOWN,
        Severity.CRITICAL if running and not advancing and since else Severity.WARNING,
        (readers[0][0] if readers else "", None),
        f"Source {view.id.source} {describe_silence([view])}{f'; {effect}' if effect else ''}.",
        subject=view.id.source,
        evidence=(
            EvidenceItem("reason", view.last_reason or "no answer"),
            *(() if since is None else (build_time_item("last read", since),)),
            *((EvidenceItem("error", view.last_error),) if view.last_error else ()),
        ),
    )


def _advanced_after(context: RuleContext, key: ConnectorKey, moment: float) -> bool:
    return any(
        view.advanced_at is not None and view.advanced_at > moment
        for view in context.index.source_partitions.get(key, ())
    )


def _group_by_connector(
    context: RuleContext, is_included: Callable[[SourceEndView], bool]
) -> Iterator[tuple[ConnectorKey, list[SourceEndView]]]:
    grouped: dict[ConnectorKey, list[SourceEndView]] = {}
    for view in context.snapshot.source_ends:
        if is_included(view):
            grouped.setdefault((view.connect_cluster, view.connector), []).append(view)
    yield from grouped.items()


def _lasts(
    context: RuleContext, what: str, key: ConnectorKey, subject: str = "", *, intervals: int = 3
) -> bool:
    return context.lasts(what, key, subject) >= intervals * context.settings.interval_s


def _is_late(context: RuleContext) -> Callable[[SourceEndView], bool]:
    def is_late(view: SourceEndView) -> bool:
        key = (view.connect_cluster, view.connector)
        baseline = context.snapshot.baselines.of.get(key)
        if baseline is None or view.caught_up is not False or view.behind_since is None:
            return False
        limit_s = baseline.source_lag_limit(context.now)
        if limit_s is not None:
            return context.now - view.behind_since > limit_s
        return baseline.out_of_the_ordinary(view.behind_since, context.now)

    return is_late


def _describe_baseline(context: RuleContext, key: ConnectorKey) -> str:
    most = context.snapshot.baselines.of[key].source_lag_at_most(context.now)
    if most is None:
        return "in its history it never paused for so long"
    return f"at this hour it is hardly ever behind for more than {format_timespan(most)}"


def _is_at_rest(context: RuleContext, key: ConnectorKey) -> bool:
    connector = context.index.connectors.get(key)
    return connector is not None and pause_state_of(connector) is not None


def _is_near(view: SourceEndView, interval_s: float) -> bool:
    if view.lost is not None or view.mismatch is not None:
        return False
    soon = view.headroom_s is not None and view.headroom_s < NEAR_INTERVALS * interval_s
    return view.retention_near is not None or soon


def _has_inactive_slot(view: SourceEndView) -> bool:
    return view.kind == SourceKind.POSTGRESQL and view.connected is False and view.lost is None


def _build_evidence(views: list[SourceEndView]) -> Evidence:
    return build_examples(
        [
            (EvidenceItem("source partition", view.label), *build_source_end_evidence(view))
            for view in views
        ]
    )
