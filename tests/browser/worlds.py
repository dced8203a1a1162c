"""What the status page is shown in these tests, and in the pictures of its documentation."""

from __future__ import annotations

from datetime import UTC, datetime

from offsetwatch.model.connectors import ConnectorKind, Task
from offsetwatch.model.findings import (
    EvidenceItem,
    Finding,
    FindingName,
    Judgement,
    Scope,
    Severity,
    Verdict,
)
from offsetwatch.model.moments import Moment
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.model.remediation import GuardRow, OpenPlan, RemediationReported, StepRow
from offsetwatch.model.topology import MirrorFlow, Topology
from offsetwatch.remedy.guards import GUARDS
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from offsetwatch.state.totals import MARK_INTERVAL_S, Trends
from tests.changed import replace
from tests.unit.serve.worlds import FORGOTTEN, MIRROR, SINK, connector

NOW = 1_763_712_006.5
HOSTILE = "<img src=x onerror=\"document.title='hit'\">"

PLAN = OpenPlan(
    plan_id="20251121-080012-3f9c",
    sha256="9f2c41d07be5a8836c1f0e42d7ab95c36e18f04b2d9c7a5510e3f8b6c4d2a197",
    state="proposed",
    connect_cluster="lab",
    connector="invoices-to-s3",
    verb="skip the record at offset 4711 of east/invoices-2 for invoices-to-s3",
    said="skip the record at offset 4711 of east/invoices-2 for invoices-to-s3",
    created_at=Moment(NOW - 140),
    created_by="detector",
    expires_at=Moment(NOW + 3460),
    steps=(
        StepRow("copy the record at offset 4711 of east/invoices-2 to quarantine", ()),
        StepRow("stop the connector", ("PUT /connectors/invoices-to-s3/stop",)),
        StepRow(
            "set the offset behind it",
            ('PATCH /connectors/invoices-to-s3/offsets {"kafka_offset": 4712}',),
        ),
        StepRow("resume the connector", ("PUT /connectors/invoices-to-s3/resume",)),
    ),
    guards=tuple(
        GuardRow(
            number=guard.number,
            guard=guard.name,
            answer="deny" if guard.name == "mode_auto" else "pass",
            said="mode propose" if guard.name == "mode_auto" else "",
            asks=guard.name == "mode_auto",
        )
        for guard in GUARDS
        if guard.name in {"mode_auto", "pause", "read_just_now", "cool_down", "views_agree"}
    ),
)


def full() -> Snapshot:
    """A morning with three troubles, and an hour of marks before it."""
    return _with_trends(_morning)


def many(count: int) -> Snapshot:
    """So many source connectors, with an hour of marks each."""

    def build(moment: float) -> Snapshot:
        names = [f"orders-{number:04}" for number in range(count)]
        verdicts = (Verdict.OK, Verdict.OK, Verdict.IDLE, Verdict.STALLED)
        return replace(
            EMPTY_SNAPSHOT,
            at=moment,
            ready=True,
            waiting_for=(),
            connectors=tuple(connector(name, tasks=(Task(0, "running"),)) for name in names),
            source_partitions=tuple(_source(name, moment - 30.0) for name in names),
            judgements=tuple(
                _judged(name, verdicts[number % 4]) for number, name in enumerate(names)
            ),
        )

    return _with_trends(build)


def fleet() -> Snapshot:
    """The morning of full(), and two further Connect clusters: one database connector stands still,
    one is paused, and 58 are well.
    """
    return _with_trends(_fleet)


def _fleet(moment: float) -> Snapshot:
    snapshot = _morning(moment)
    clusters = {
        **{f"payments-{number:02}": "payments" for number in range(40)},
        **{f"stock-{number:02}": "warehouse" for number in range(20)},
    }
    odd = {"payments-17": Verdict.STALLED, "stock-04": Verdict.IDLE}
    return replace(
        snapshot,
        connectors=(
            *snapshot.connectors,
            *(
                replace(
                    connector(name, tasks=(Task(0, "running"),)),
                    connect_cluster=cluster,
                    state="paused" if name == "stock-04" else "running",
                )
                for name, cluster in clusters.items()
            ),
        ),
        source_partitions=(
            *snapshot.source_partitions,
            *(
                replace(
                    _database(name, moment - 4.0 if name not in odd else NOW - 2700.0),
                    connect_cluster=cluster,
                )
                for name, cluster in clusters.items()
            ),
        ),
        judgements=(
            *snapshot.judgements,
            *(
                replace(_judged(name, odd.get(name, Verdict.OK)), connect_cluster=cluster)
                for name, cluster in clusters.items()
            ),
        ),
        findings=tuple(
            replace(
                finding,
                next_command=f"offsetwatch explain {finding.connector}",
                runbook_url=f"https://docs.example.com/runbooks/{finding.name}.md",
            )
            for finding in snapshot.findings
        ),
    )


def _with_trends(built) -> Snapshot:
    trends = Trends()
    for minute in range(59, 0, -1):
        if not 30 <= minute < 37:  # a gap: nobody looked
            trends.add(built(NOW - minute * MARK_INTERVAL_S))
    now = built(NOW)
    return replace(now, trends=trends.add(now))


def snapshot_with_markup() -> Snapshot:
    """Everything that somebody else may have written has markup in it."""
    snapshot = full()
    named = replace(snapshot.connectors[0], name=HOSTILE, connect_cluster=HOSTILE)
    return replace(
        snapshot,
        connectors=(*snapshot.connectors, named),
        source_partitions=(
            *snapshot.source_partitions,
            replace(
                snapshot.source_partitions[0],
                connect_cluster=HOSTILE,
                connector=HOSTILE,
                label=HOSTILE,
            ),
        ),
        judgements=(*snapshot.judgements, replace(snapshot.judgements[0], reason=HOSTILE)),
        findings=(
            replace(
                snapshot.findings[0],
                connector=HOSTILE,
                summary=HOSTILE,
                subject=HOSTILE,
                evidence=(EvidenceItem(HOSTILE, HOSTILE),),
            ),
            *snapshot.findings,
        ),
        remedies=replace(
            snapshot.remedies, open_plans=(replace(PLAN, verb=HOSTILE, said=HOSTILE),)
        ),
    )


def _morning(moment: float) -> Snapshot:
    old = NOW - moment  # how long before now
    stalled_for = max(0.0, 1500.0 - old)
    none_lost = (("retention", 0), ("recreated", 0))
    mirrored = replace(MIRROR, topic="inventory", lost=none_lost, headroom_s=518_400.0)
    stalled = replace(
        mirrored,
        connector="copy-west",
        behind_since=moment - stalled_for,
        caught_up=stalled_for == 0,
        committed_at=NOW - 1500.0,
    )
    flowing = replace(
        mirrored,
        connector="copy-south",
        source="south",
        behind_since=moment - 1.5 - (old / 60) % 7,
        committed_at=moment - 21.0,
    )
    waits_since = f"{datetime.fromtimestamp(NOW - 1500.0, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return replace(
        EMPTY_SNAPSHOT,
        at=moment,
        ready=True,
        waiting_for=(),
        topology=Topology(
            offsets_topics=(),
            flows=tuple(
                MirrorFlow(
                    connect_cluster="lab",
                    connector=f"copy-{source}",
                    source=source,
                    target="east",
                    upstream=source,
                    downstream="east",
                    offset_syncs=None,
                )
                for source in ("west", "south")
            ),
        ),
        connectors=(
            connector("customers", tasks=(Task(0, "running"),)),
            connector("price-list", tasks=(Task(0, "running"),)),
            replace(
                connector("invoices-to-s3", tasks=(Task(0, "failed"), Task(1, "running"))),
                kind=ConnectorKind.SINK,
            ),
            replace(connector("copy-west", tasks=(Task(0, "running"),)), kind=ConnectorKind.MIRROR),
            replace(
                connector("copy-south", tasks=(Task(0, "running"),)), kind=ConnectorKind.MIRROR
            ),
        ),
        source_partitions=(
            _source("customers", moment - 30.0),
            _source("price-list", NOW - 3600.0 - 900.0),
        ),
        mirror_partitions=(
            *(_copied(stalled, partition, round(stalled_for * 11)) for partition in (0, 1)),
            _copied(flowing, 0, round(70 + 30 * ((old / 60) % 7))),
        ),
        sink_partitions=(
            replace(
                SINK,
                connector="invoices-to-s3",
                topic="invoices",
                partition=2,
                committed=4711,
                log_end=4711 + round(max(0.0, 900.0 - old)),
                lag=round(max(0.0, 900.0 - old)),
                behind_since=moment - max(0.0, 900.0 - old),
                caught_up=old >= 900.0,
            ),
        ),
        judgements=(
            _judged("customers", Verdict.OK),
            _judged("price-list", Verdict.UNKNOWN),
            _judged("invoices-to-s3", Verdict.STALLED),
            _judged("copy-west", Verdict.SILENT),
            _judged("copy-south", Verdict.OK),
            replace(_judged("copy-west", Verdict.SILENT), scope=Scope.FLOW, subject="west->east"),
            replace(_judged("copy-south", Verdict.OK), scope=Scope.FLOW, subject="south->east"),
        ),
        findings=(
            Finding(
                name=FindingName.MM2_SILENT_STALL,
                severity=Severity.CRITICAL,
                connect_cluster="lab",
                connector="copy-west",
                subject="west->east",
                summary=(
                    f"copy-west makes no progress: work waits and nothing advanced since "
                    f"{waits_since}, and no state shows a failure."
                ),
                since=NOW - 1320.0,
                evidence=(
                    EvidenceItem("lag", 33_000, "records"),
                    EvidenceItem("oldest record waits since", waits_since, "time"),
                    EvidenceItem("states", "connector running, tasks: 1 running"),
                ),
            ),
            Finding(
                name=FindingName.POISON_SUSPECTED,
                severity=Severity.WARNING,
                connect_cluster="lab",
                connector="invoices-to-s3",
                subject="invoices-2",
                summary=(
                    "invoices-to-s3 task 0 failed 3 times at the same position: "
                    "JsonParseException at invoices-2@4711; restarts have not helped."
                ),
                since=NOW - 720.0,
                evidence=(
                    EvidenceItem("failures", 3, "times"),
                    EvidenceItem("position", 4711, "offset"),
                    EvidenceItem("kind", "data"),
                ),
            ),
        ),
        remedies=RemediationReported(
            at=moment, mode="propose", plans=(("proposed", 1),), open_plans=(PLAN,)
        ),
    )


def _copied(of, partition: int, lag: int):
    """A partition of which so much is left to copy."""
    end = 48_211_305 + 17 * partition
    position = end - 1 - lag
    return replace(
        of, partition=partition, lag=lag, log_end=end, replicated=position, lag_position=position
    )


def _source(name: str, committed_at: float):
    number = round(committed_at) % 100_000
    text = f'{{"position":{number}}}'
    return replace(
        FORGOTTEN,
        connector=name,
        identity=f'{{"table":"{name}"}}',
        label=f"table={name}",
        offset=SourceOffset(text=text, numbers=(("position", number),)),
        committed_at=committed_at,
        advanced_at=committed_at,
    )


def _database(name: str, committed_at: float):
    """A partition as Debezium's connector for PostgreSQL has it."""
    lsn = 26_539_712 + round(committed_at - NOW) * 8
    text = (
        f'{{"lsn":{lsn},"lsn_commit":{lsn - 56},"lsn_proc":{lsn},"messageType":"UPDATE",'
        f'"transaction_id":null,"ts_usec":{round(committed_at * 1e6)},"txId":753}}'
    )
    return replace(
        _source(name, committed_at),
        identity=f'{{"server":"{name}"}}',
        label=f"server={name}",
        dialect="debezium",
        offset=SourceOffset(text=text, numbers=(("lsn", lsn),)),
    )


def _judged(name: str, verdict: Verdict) -> Judgement:
    reasons = {
        Verdict.OK: "it advanced within the last interval",
        Verdict.IDLE: "nothing waits, and the log end stands still",
        Verdict.UNKNOWN: "it has been quiet for 75 minutes, and nothing tells idle from dead",
        Verdict.STALLED: "records wait, nothing advances, and a task has failed",
        Verdict.SILENT: "records wait and nothing was copied for 25 minutes, while all tasks run",
    }
    return Judgement(
        scope=Scope.CONNECTOR,
        connect_cluster="lab",
        connector=name,
        subject="",
        verdict=verdict,
        rule=7,
        reason=reasons[verdict],
        since=NOW - 1320.0,
        evidence=(EvidenceItem("watched for", 10, "intervals"),),
    )
