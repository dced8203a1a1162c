"""The verb `explain`: all that is known about a connector; serve/documents/explain.py builds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.document_source import (
    ReadOptions,
    SourcedDocument,
    UnreadCluster,
    find_input_clusters,
    open_document,
)
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.options import add_config_option
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.inspect.status import (
    format_raw_json,
    format_source_lag,
    is_loud,
    print_findings,
    print_verdicts,
)
from offsetwatch.cli.offsets.offset_store import find_connect
from offsetwatch.cli.plans.print import build_plan_document, print_guards
from offsetwatch.cli.plans.switches import MODE_MEANINGS, describe_pause
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config
from offsetwatch.daemon.remediation import open_remediation_parts
from offsetwatch.errors import ClientError, ConfigError, JournalDamaged, ResponseTimeout
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import find_worst_state, format_state
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.remedy.guards import Permission, derive_permission
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model.incidents import Incident, find_incidents
from offsetwatch.remedy.model.journal_records import ActionRefused, IncidentDetected
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.policy import FLEET_SCOPE, scope_of
from offsetwatch.remedy.model.service_api import (
    Breaker,
    GuardAnswerRow,
    Mode,
    PlanRow,
    RemediationPause,
    lowest_mode,
)
from offsetwatch.remedy.planner import Planner
from offsetwatch.remedy.views import plan_view
from offsetwatch.remedy.views.plan_text import COMMAND
from offsetwatch.serve.documents import api
from offsetwatch.serve.documents.explain import encode_explain
from offsetwatch.serve.documents.types import (
    DatedOffset,
    ExplainBody,
    ExplainedFlow,
    ExplainedMirrorPartition,
    RouterRow,
    SourceEndRow,
    SourcePartition,
)
from offsetwatch.state.snapshot import Snapshot

OK, FINDINGS = 0, 1


def explain_connector(
    reading: ReadOptions,
    connector: str,
    connect_cluster: str | None,
    *,
    output_format: OutputFormat,
) -> int:
    """Print everything known about one connector, and name the inputs that could not be read.

    Raises ConfigError if there is no such connector, or several. Raises ResponseTimeout if it may
    be in what could not be read.
    """
    configure_logging("error", "console")
    loaded = None if reading.url is not None else reading.loaded()
    if loaded is not None and connect_cluster is not None:
        find_connect(loaded, connect_cluster)
    query = {"connector": connector, "connect_cluster": connect_cluster}
    named = {name: value for name, value in query.items() if value is not None}
    build = partial(_build_explanation, name=connector, cluster=connect_cluster)
    with open_document(reading, f"/api/v1/explain?{urlencode(named)}", build) as sourced:
        if not sourced.body:
            output.print_error(*(unread.text for unread in sourced.unread))
            raise ResponseTimeout(f"connector {connector}", "it is not in what could be read")
        document = sourced.decode(ExplainBody)
        key = (document["connect_cluster"], document["name"])
        missing = _find_missing_clusters(document, sourced)
        config, inspection = sourced.config, sourced.inspection
        previews: tuple[RemediationPreview, ...] = ()
        if config is not None and inspection is not None:
            previews = preview_remediation(config, inspection.snapshot, *key)
    journal = (
        None if config is None else read_connector_remediation(config, *key, SystemClock().now())
    )
    inputs = tuple(f"input {name} " for unread in missing for name in unread.inputs)
    said = [text for text in document["problems"] if not inputs or not text.startswith(inputs)]
    problems = [*(unread.text for unread in missing), *said]
    if output_format is not OutputFormat.TABLE:
        more = {
            "remedy": build_remediation_document(journal),
            "considered": [preview._asdict() for preview in previews],
        }
        full_document = {**document, "problems": problems, "unread": missing}
        output.print_document(output_format, {**full_document, "told_by": sourced.by, **more})
    else:
        print_findings(document["findings"], sourced.by, complete=not missing)
        _print_head(document)
        print_verdicts(document["judgements"], sourced.by)
        _print_tables(document)
        print_connector_remediation(journal)
        print_previews(previews)
        output.print_error(*problems)
    loud = any(map(is_loud, document["findings"]))
    return FINDINGS if problems or loud else OK


def _build_explanation(snapshot: Snapshot, *, name: str, cluster: str | None) -> bytes:
    """Return the document; empty if the connector may be in what was not read."""
    try:
        return encode_explain(snapshot, name, cluster)
    except ConfigError:
        if snapshot.ready:
            raise
        return b""


def _find_missing_clusters(document: ExplainBody, sourced: SourcedDocument) -> list[UnreadCluster]:
    """Return the unread clusters that the connector depends on."""
    needed = {
        cluster
        for row in document["inputs"]
        for cluster in find_input_clusters(row["kind"], row["input"], sourced.config)
    }
    down = {f"{row['kind']} {row['input']}" for row in document["inputs"] if not row["up"]}
    return [
        msgspec.structs.replace(
            unread, inputs=tuple(name for name in unread.inputs if name in down)
        )
        for unread in sourced.unread
        if (unread.kind, unread.cluster) in needed and (down & {*unread.inputs})
    ]


def _print_head(document: ExplainBody) -> None:
    tasks = [task["state"] for task in document["tasks"]]
    state = format_state(find_worst_state(document["state"], tasks))
    numbered = " ".join(f"{task['task']}:{task['state']}" for task in document["tasks"])
    head = [("state", state), *((key, document[key]) for key in ("kind", "class", "version"))]
    head.append(("tasks", numbered or "none"))
    if document["offsets_topic"] is not None:
        head.append(("offsets topic", document["offsets_topic"]))
    flow, group = document["flow"], document["group"]
    if flow is not None:
        head += [
            ("flow", f"{flow['source']}->{flow['target']}"),
            ("upstream cluster", flow["upstream"] or "unknown"),
            ("offset syncs", flow["offset_syncs"] or "none"),
            *(("copies", _describe_router(router)) for router in flow["routers"]),
            *(
                ("copies", f"of {'other topics' if topic == '*' else topic}: {name} (configured)")
                for topic, name in flow.get("copies", {}).items()
            ),
        ]
    if group is not None:
        kafka = group["kafka"] or "a Kafka cluster that is not configured"
        head.append(("group", f"{group['group']} on {kafka}"))
        if group.get("lag_unknown"):
            head.append(("lag", f"unknown: {group['lag_unknown']}"))
    output.print_table(f"{document['connect_cluster']}/{document['name']}", ("", ""), head)


def _print_tables(document: ExplainBody) -> None:
    flow, group = document["flow"], document["group"]
    if document["source_partitions"]:
        _print_source_offsets(document["source_partitions"])
    if flow is not None:
        _print_flow(flow)
    if group is not None and group["partitions"]:
        output.print_columns(
            "Sink offsets (the next record)",
            group["partitions"],
            {
                "topic": lambda row: row["topic"],
                "partition#": lambda row: row["partition"],
                "committed#": lambda row: row["committed"],
                "log end#": lambda row: row["log_end"],
                "lag#": lambda row: row["lag_records"],
                "oldest waits#": lambda row: output.format_age(row["lag_seconds"]),
                "from": lambda row: row["from"],
            },
        )
    if document["failover"]:
        output.print_table(
            "Failover (where a group would start if it moved to the target now)",
            api.FAILOVER_HEADINGS,
            map(api.format_failover_row, document["failover"]),
        )
    output.print_columns(
        "Rests on",
        document["inputs"],
        {
            "input": lambda row: row["input"],
            "kind": lambda row: row["kind"],
            "up": lambda row: row["up"],
            "last read": lambda row: output.format_moment(row["last_success_at"]),
            "last error": lambda row: row["last_error"],
        },
    )


def _print_source_offsets(rows: list[SourcePartition]) -> None:
    output.print_columns(
        "Source offsets",
        rows,
        {
            "source partition": lambda row: row.label,
            "offset": lambda row: format_raw_json(row.offset),
            "last commit": lambda row: output.format_moment(row.committed_at),
            "last advance": lambda row: output.format_moment(row.advanced_at),
            "kind": lambda row: row.dialect,
            "variants#": lambda row: row.variants or None,
            "from": lambda row: row.origin,
        },
    )
    _print_source_ends(rows)
    _print_raw_keys(rows)


def _print_source_ends(rows: list[SourcePartition]) -> None:
    """Print how far the partitions are behind the ends of their sources, where those are read."""
    ends = [(row.label, row.source_end) for row in rows if isinstance(row.source_end, SourceEndRow)]
    if not ends:
        return
    output.print_table(
        "Source ends (on a database the lag also counts what the connector does not capture)",
        (
            *("source partition", "source", "end", "lag", "waits since#", "caught up"),
            *("connected", "headroom", "read"),
        ),
        (
            (
                label,
                f"{end.kind} {end.source}",
                end.end,
                format_source_lag(end),
                output.format_age(end.lag_seconds),
                end.caught_up,
                end.connected,
                None
                if end.retention_headroom_bytes is None
                else format_count(end.retention_headroom_bytes, "byte"),
                output.format_moment(end.read_at),
            )
            for label, end in ends
        ),
    )


def _print_raw_keys(rows: list[SourcePartition]) -> None:
    """Print the raw keys that tasks look up, where they differ from a HashMap's or are unknown."""
    keys: list[tuple[str, str, msgspec.Raw]] = []
    for row in rows:
        if isinstance(row.raw_key, str):
            keys.append((row.label, row.raw_key, row.offset))
        elif isinstance(row.raw_keys_unsure, tuple):
            keys += ((row.label, one.raw_key, one.offset) for one in row.raw_keys_unsure)
    if keys:
        output.print_table(
            "Raw keys (of several for one source partition, its task looks up one)",
            ("source partition", "raw key", "offset"),
            ((label, key, format_raw_json(offset)) for label, key, offset in keys),
        )


def _describe_router(router: RouterRow) -> str:
    said = f"have other names, which are unknown ({router['class']})"
    if router["regex"] is not None:
        said = f"renamed by {router['class']}: {router['regex']} -> {router['replacement'] or ''}"
    if router.get("conditional"):
        return f"{said}; of some records only, as a predicate decides: unknown"
    topics = router.get("topics")
    if topics is None:
        return said
    return f"{said}; of topics that {'do not match' if router['negated'] else 'match'} {topics}"


def _print_flow(flow: ExplainedFlow) -> None:
    if flow["partitions"]:
        output.print_columns(
            "Replication (the last record replicated, and when each number was true)",
            flow["partitions"],
            {
                "topic": lambda row: row["topic"],
                "partition#": lambda row: row["partition"],
                "committed": lambda row: _format_dated_offset(row["committed"]),
                "synced": lambda row: _format_dated_offset(row["synced"]),
                # The one that the shown lag belongs to; a newer one waits for the next log end.
                "replicated#": lambda row: (
                    row["replicated"] if row["lag_position"] is None else row["lag_position"]
                ),
                "log end": lambda row: _format_dated_offset(row["log_end"]),
                "lag#": lambda row: row["lag_records"],
                "oldest waits#": lambda row: output.format_age(row["lag_seconds"]),
                "headroom#": _format_headroom,
            },
        )
    if flow["losses"]:
        output.print_columns(
            "Lost (upstream offsets that can no longer be replicated)",
            reversed(flow["losses"]),
            {
                "topic": lambda loss: loss["topic"],
                "partition#": lambda loss: loss["partition"],
                "cause": lambda loss: loss["cause"],
                "first#": lambda loss: loss["first"],
                "last#": lambda loss: loss["last"],
                "records#": lambda loss: loss["records"],
                "found": lambda loss: output.format_moment(loss["at"]),
            },
        )
    if flow["recreations"]:
        output.print_columns(
            "Recreated topics",
            flow["recreations"],
            {
                "topic": lambda recreation: recreation["topic"],
                "times#": lambda recreation: recreation["count"],
                "last found": lambda recreation: output.format_moment(recreation["at"]),
                "id before": lambda recreation: recreation["id_before"] or "not known",
                "id now": lambda recreation: recreation["id_after"] or "not known",
            },
        )


def _format_headroom(row: ExplainedMirrorPartition) -> str | None:
    """Return the headroom in records, with the time if retention comes closer."""
    records, seconds = row["headroom_records"], row["headroom_seconds"]
    if records is None:
        return None
    return str(records) if seconds is None else f"{records} ({output.format_age(seconds)})"


def _format_dated_offset(offset: DatedOffset | None) -> str | None:
    return None if offset is None else f"{offset['offset']} @ {output.format_moment(offset['at'])}"


# --- remediation of the connector, as of the daemon's journal, and as of now ----------------------

# The journal has incidents, plans and the last answers of the guards. A preview asks the clusters
# for the plan as of now and every guard's answer. The process has only just started: what takes two
# observations to detect, only the daemon reports, and the guard against a fresh start is left out.


class ConnectorRemediation(NamedTuple):
    """Mode, pause, breakers, incidents, guard answers and plans of one connector.

    refusals         the guards' answers when the daemon last evaluated each action
    plans            those that are not over
    stopped_since    Unix seconds of the stop by one of our plans; None if there is none
    """

    mode: Mode
    pause: RemediationPause | None
    breakers: tuple[Breaker, ...]
    incidents: tuple[IncidentDetected, ...]
    refusals: tuple[ActionRefused, ...]
    plans: tuple[PlanRow, ...]
    stopped_since: float | None


def read_connector_remediation(
    config: Config, cluster: str, connector: str, now: float
) -> ConnectorRemediation | None:
    """Return the state; None if there is no journal yet, or if it is damaged, which is printed."""
    folder = Path(config.state_dir)
    if not (folder / FILE_NAME).exists():
        return None
    try:
        ledger = JournalIndex(folder)
        with closing(ledger.journal):
            ledger.read_on()
    except JournalDamaged as exc:
        output.print_error(f"the state of remediation is unknown: {exc}")
        return None
    fleet, key = ledger.fleet, (cluster, connector)

    def is_about(record: IncidentDetected | ActionRefused) -> bool:
        return (record.connect_cluster, record.connector) == key

    rows = (plan_view.build_plan_row(history, now) for history in ledger.dossiers.values())
    plans = tuple(
        row for row in rows if (row.connect_cluster, row.connector) == key and not row.state.is_over
    )
    approved = {row.action for row in plans if row.state is PlanStatus.APPROVED}
    proposed_at = {row.action: row.created_at for row in plans if row.state is PlanStatus.PROPOSED}
    return ConnectorRemediation(
        mode=lowest_mode(Mode(config.remedy.mode), fleet.lowered_mode),
        pause=plan_view.build_pause(fleet, now),
        breakers=tuple(
            fleet.breakers[scope]
            for scope in (scope_of(*key), FLEET_SCOPE)
            if scope in fleet.breakers
        ),
        incidents=tuple(filter(is_about, fleet.incidents.values())),
        refusals=tuple(
            refusal
            for refusal in filter(is_about, ledger.refusals.values())
            if (refusal.incident in fleet.incidents or refusal.action in approved)
            and refusal.at > proposed_at.get(refusal.action, -math.inf)
        ),
        plans=plans,
        stopped_since=fleet.stopped_by_us().get(key),
    )


def build_remediation_document(
    remediation: ConnectorRemediation | None,
) -> Mapping[str, Any] | None:
    """Return the state as a JSON document; None for None."""
    if remediation is None:
        return None
    return {
        "mode": remediation.mode,
        "pause": remediation.pause,
        "breakers": remediation.breakers,
        "stopped_since": moment_of(remediation.stopped_since),
        "incidents": [
            {**msgspec.structs.asdict(incident), "at": Moment(incident.at)}
            for incident in remediation.incidents
        ],
        "looked": [
            {
                "at": Moment(refusal.at),
                "incident": refusal.incident,
                "action": refusal.action,
                "mode": refusal.mode,
                "would": refusal.would,
                "guards": tuple(map(plan_view.build_guard_row, refusal.answers)),
                "recommend": refusal.recommend,
            }
            for refusal in remediation.refusals
        ],
        "plans": [build_plan_document(row, row.state.value) for row in remediation.plans],
    }


def print_connector_remediation(remediation: ConnectorRemediation | None) -> None:
    """Print the state as tables; nothing for None."""
    if remediation is None:
        return
    facts: list[tuple[str, str | None]] = [
        ("mode", f"{remediation.mode.value}: {MODE_MEANINGS[remediation.mode]}"),
        ("pause", None if remediation.pause is None else describe_pause(remediation.pause)),
        ("stopped by a plan since", output.format_moment(remediation.stopped_since)),
    ]
    facts += [
        (
            f"breaker of {breaker.scope}",
            f"open since {output.format_moment(breaker.opened_at)}: {breaker.said}",
        )
        for breaker in remediation.breakers
    ]
    facts += [
        (f"{incident.what} since", f"{output.format_moment(incident.at)}: {incident.said}")
        for incident in remediation.incidents
    ]
    facts += [
        (
            f"plan {row.state.value}",
            f"{row.plan_id}: {row.verb or row.action}: "
            + add_config_option(f"{COMMAND} plan show {row.plan_id}"),
        )
        for row in remediation.plans
    ]
    if not remediation.incidents:
        facts.append(("incidents", "none"))
    output.print_table("Remediation", ("", ""), [fact for fact in facts if fact[1] is not None])
    for refusal in remediation.refusals:
        outcome = "every guard lets it" if refusal.would else "it is not done"
        print_guards(
            f"{refusal.action}, as of {output.format_moment(refusal.at)} in mode "
            f"{refusal.mode}: {outcome}",
            tuple(map(plan_view.build_guard_row, refusal.answers)),
        )
        _print_recommendations(refusal.recommend)


def _print_recommendations(recommend: tuple[str, ...]) -> None:
    if recommend:
        output.print_lines("Better than that", [f"  {said}" for said in recommend])


_STARTUP_GUARDS: Final = frozenset({"start_grace"})
_OUTCOME_WORDS: Final = {
    Permission.NO: "it is not done",
    Permission.WOULD: "it would be done; the mode is to observe",
    Permission.PROPOSE: "it is proposed to people",
    Permission.ACT: "it is done without asking",
}


class RemediationPreview(NamedTuple):
    """Preview for one incident, with the fields of its JSON document.

    plan    in words; None if none can be made, for the reason in `said`
    """

    incident: str
    what: str
    since: Moment
    action: str
    comes_to: Permission
    plan: str | None
    said: str
    guards: tuple[GuardAnswerRow, ...]
    recommend: tuple[str, ...]


def preview_remediation(
    config: Config, snapshot: Snapshot, cluster: str, connector: str
) -> tuple[RemediationPreview, ...]:
    """Return one preview for each incident; none if no daemon has written a journal yet."""
    folder = Path(config.state_dir)
    stop_on = frozenset(config.remedy.stop_on)
    incidents = [
        incident
        for incident in find_incidents(snapshot, stop_on)
        if (incident.connect_cluster, incident.connector) == (cluster, connector)
    ]
    if not incidents or not (folder / FILE_NAME).exists():
        return ()
    try:
        with open_remediation_parts(
            config, lambda: snapshot, folder, SystemClock(), pause=lambda _: None
        ) as parts:
            return tuple(_preview_incident(parts.planner, incident) for incident in incidents)
    except ClientError as exc:
        output.print_error(f"remediation was not evaluated: {output.format_client_error(exc)}")
        return ()


def _preview_incident(planner: Planner, incident: Incident) -> RemediationPreview:
    evaluation = planner.evaluate_case(planner.choose_action(incident))
    answers = tuple(answer for answer in evaluation.answers if answer.guard not in _STARTUP_GUARDS)
    return RemediationPreview(
        incident=incident.key,
        what=incident.said,
        since=Moment(incident.since),
        action=evaluation.action.value,
        comes_to=derive_permission(answers),
        plan=None if evaluation.plan is None else evaluation.plan.verb,
        said=evaluation.said,
        guards=tuple(map(plan_view.build_guard_row, answers)),
        recommend=evaluation.recommend,
    )


def print_previews(previews: tuple[RemediationPreview, ...]) -> None:
    """Print the previews as tables."""
    for preview in previews:
        title = f"{preview.action}, asked just now"
        if preview.plan is None:
            output.print_lines(f"{title}: no plan can be made: {preview.said}", ())
        else:
            outcome = _OUTCOME_WORDS[preview.comes_to]
            print_guards(f"{title}: {preview.plan}: {outcome}", preview.guards)
        _print_recommendations(preview.recommend)
