"""Rules 1 to 4: connectors that make no progress, or go back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from offsetwatch.formatting import format_count
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.progress.cases import build_raw_key_evidence
from offsetwatch.judge.text_formats import build_examples, build_time_item, format_names
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.findings import (
    Evidence,
    EvidenceItem,
    Finding,
    FindingName,
    Judgement,
    Scope,
    Severity,
    Verdict,
)
from offsetwatch.state.snapshot import SourcePartitionView
from offsetwatch.state.snapshot_index import ConnectorKey

_FINDING_NAMES = {
    (ConnectorKind.MIRROR, Verdict.STALLED): FindingName.MM2_STALLED,
    (ConnectorKind.MIRROR, Verdict.SILENT): FindingName.MM2_SILENT_STALL,
    (ConnectorKind.SINK, Verdict.STALLED): FindingName.SINK_STUCK,
    (ConnectorKind.SINK, Verdict.SILENT): FindingName.SINK_STUCK,
    (ConnectorKind.SOURCE, Verdict.STALLED): FindingName.CONNECTOR_STALLED,
    (ConnectorKind.SOURCE, Verdict.SILENT): FindingName.CONNECTOR_SILENT,
}


def find_stalled_connectors(context: RuleContext) -> Iterator[Finding]:
    """Rule 1: a connector's verdict is stalled: there is work, and something shows why it is not
    done.
    """
    yield from _find_without_progress(context, Verdict.STALLED, Severity.WARNING)


def find_silent_connectors(context: RuleContext) -> Iterator[Finding]:
    """Rule 2: a connector's verdict is silent: there is work, nothing is done, and every state says
    that it runs. Nothing else will tell.
    """
    yield from _find_without_progress(context, Verdict.SILENT, Severity.CRITICAL)


def _find_without_progress(
    context: RuleContext, verdict: Verdict, severity: Severity
) -> Iterator[Finding]:
    partitions = _group_partitions(context, verdict)
    for judged in context.index.judgements(Scope.CONNECTOR, verdict):
        key = (judged.connect_cluster, judged.connector)
        yield context.found(
            _FINDING_NAMES[_connector_kind_of(context, key), verdict],
            severity,
            key,
            f"makes no progress: {judged.reason}.",
            evidence=(*judged.evidence, *_build_judgement_examples(partitions.get(key, ()))),
        )


def find_rewound_connectors(context: RuleContext) -> Iterator[Finding]:
    """Rule 3: source partitions went back and have not come as far again; not if those of other
    connectors went back with them (rule 4), or a person set back a stopped connector's. What may
    turn out to be copied again as a whole (rule 14) is reported by that name, an interval later. A
    task that begins to look up another raw key starts from scratch, and both keys are reported.
    """
    falls = context.memory.falls
    unclear = falls.unclear(context.now, context.settings.interval_s)
    judgements = {
        **_group_restarted_partitions(context),
        **_group_partitions(context, Verdict.REWOUND),
    }
    for key, partitions in judgements.items():
        if key in falls.meant or key in unclear:
            continue
        shared_rewind = falls.shared.get(key[0])
        if (
            shared_rewind
            and key[1] in shared_rewind.connectors
            and _is_recent(context, shared_rewind.at)
        ):
            continue
        odd = context.index.odd_source_partitions.get(key, ())
        restarted = next((view for view in odd if view.restarted), None)
        yield context.found(
            FindingName.REWOUND,
            Severity.WARNING,
            key,
            f"went back in {format_count(len(partitions), 'source partition')} and reads them again"
            f"{'' if restarted is None else _RESTART_REASON}.",
            evidence=(
                *_build_judgement_examples(partitions),
                *(() if restarted is None else _build_restart_evidence(restarted)),
            ),
        )


def _group_restarted_partitions(context: RuleContext) -> dict[ConnectorKey, list[Judgement]]:
    """Return the partitions that began from scratch lately, by connector: of those whose offset has
    no order, no verdict tells.
    """
    lately = {
        (*key, view.label)
        for key, views in context.index.odd_source_partitions.items()
        for view in views
        if view.restarted is not None and _is_recent(context, view.restarted.at)
    }
    judgements: dict[ConnectorKey, list[Judgement]] = {}
    for judged in context.snapshot.judgements if lately else ():
        of = (judged.connect_cluster, judged.connector)
        if judged.scope is Scope.PARTITION and (*of, judged.subject) in lately:
            judgements.setdefault(of, []).append(judged)
    return judgements


_RESTART_REASON: Final = (
    ": its task looks its offset up under another raw key than before and did not get the old "
    "offset. The order of the key's fields may change at a restart (Map.of)"
)


def _build_restart_evidence(view: SourcePartitionView) -> Evidence:
    return (EvidenceItem("source partition", view.label), *build_raw_key_evidence(view))


def find_simultaneous_rewinds(context: RuleContext) -> Iterator[Finding]:
    """Rule 4: three connectors or more of a Connect cluster went back within one interval: the
    cause is a worker (fenced zombies, a storm of rebalances), not the connectors. Reported for
    three intervals.
    """
    for cluster, rewind in sorted(context.memory.falls.shared.items()):
        if _is_recent(context, rewind.at):
            yield context.found(
                FindingName.REWINDS_AT_ONCE,
                Severity.WARNING,
                (cluster, None),
                f"Connect cluster {cluster}: {len(rewind.connectors)} connectors went back at "
                "once; check the workers, not the connectors.",
                evidence=(
                    EvidenceItem("connectors", format_names(rewind.connectors)),
                    build_time_item("last seen", rewind.at),
                ),
            )


def _is_recent(context: RuleContext, moment: float) -> bool:
    return 0 <= context.now - moment < context.reported_s


def _connector_kind_of(context: RuleContext, key: ConnectorKey) -> ConnectorKind:
    if key in context.index.flows:
        return ConnectorKind.MIRROR
    view = context.index.connectors.get(key)
    kind = ConnectorKind.SOURCE if view is None else view.kind
    return ConnectorKind.SOURCE if kind is ConnectorKind.UNKNOWN else kind


def _group_partitions(
    context: RuleContext, verdict: Verdict
) -> dict[ConnectorKey, list[Judgement]]:
    judgements: dict[ConnectorKey, list[Judgement]] = {}
    for judged in context.index.judgements(Scope.PARTITION, verdict):
        judgements.setdefault((judged.connect_cluster, judged.connector), []).append(judged)
    return judgements


def _build_judgement_examples(partitions: Sequence[Judgement]) -> Evidence:
    return build_examples(
        [EvidenceItem(partition.subject, partition.reason) for partition in partitions]
    )
