"""What the catalogue does not say of a metric: what it rests on, and what it is for.

Read by metrics.py. A metric that is in no rule and on no board needs a purpose here, and a test
fails without one. What is said of inputs a test holds against a book whose inputs die.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from offsetwatch.serve.metrics import catalog as c
from offsetwatch.serve.metrics import mirror_families as m
from offsetwatch.serve.metrics import source_end_families as s
from offsetwatch.serve.metrics.metric import MetricSpec


class Need(StrEnum):
    """An input without which a metric is not shown, as the page calls it."""

    LISTING = (
        "`connect_rest` of the Connect cluster (without REST: the tails of its config and status "
        "topics)"
    )
    OFFSETS = "`tail` of the connector's offsets topic, or `rest_offsets` of the connector"
    SYNCS = "`tail` of the flow's offset-syncs topic"
    CHECKPOINTS = "`tail` of the flow's checkpoints topic"
    HEARTBEATS = "`tail` of the flow's heartbeats topic"
    LOG_ENDS = "`log_ends` of the upstream Kafka cluster"
    SINKS = "`groups` of the Connect cluster, or `rest_offsets` of the connector"
    FLOW_GROUPS = "`groups` of the flow"
    SOURCE_END = "`source_end` of the source that the connector reads"


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one metric.

    needs     with any of these stale it is gone
    besides   when else it is not there; a sentence
    purpose   what to do with it, where no rule and no board says so
    """

    needs: tuple[Need, ...] = ()
    besides: str = ""
    purpose: str = ""


_POSITIONS: Final = (Need.OFFSETS, Need.SYNCS)
_LAGS: Final = (*_POSITIONS, Need.LOG_ENDS)
_ENDS: Final = (Need.OFFSETS, Need.SOURCE_END)
_GROUPS: Final = (Need.CHECKPOINTS, Need.SYNCS, Need.FLOW_GROUPS)
_ALWAYS: Final = "Not while the daemon runs."
_COUNTED: Final = "A series begins with the first one counted; a restart of the daemon resets it."
_FORGOTTEN: Final = "Not for a source partition whose offset was removed."
_NO_NUMBERS: Final = "Not during a snapshot, nor for an offset of another server."
_NO_SYNCS: Final = "A flow that has no offset-syncs topic does without one."
_HISTORY: Final = (
    "Absent where no pipeline ran, or its status file cannot be read; else as that file says, "
    "however old it is."
)
_REMEDY: Final = "Absent where remediation does not run, as during a start."

FACTS: Final[dict[str, dict[MetricSpec, Facts]]] = {
    "The exporter itself": {
        c.BUILD_INFO: Facts(besides=_ALWAYS),
        c.RELOAD_SUCCESSFUL: Facts(
            besides=_ALWAYS,
            purpose="0 after a reload: the file on disk is wrong and the one before is in use.",
        ),
        c.RELOAD_AT: Facts(
            besides=_ALWAYS, purpose="Shows whether a change of the file is in use."
        ),
        c.WEB_RELOAD_SUCCESSFUL: Facts(
            besides="Absent for a listener without a web config file.",
            purpose="0: the file on disk, or a certificate it names, is wrong or asks for less "
            "protection; what was in use before still is.",
        ),
        c.WEB_RELOAD_FAILURES: Facts(
            besides=f"{_COUNTED} Absent for a listener without a web config file.",
            purpose="Rises with each change that could not be used, also where the next was right.",
        ),
        c.READ_REFUSED: Facts(
            besides=_COUNTED,
            purpose="`unauthorised` and `throttled`: a client guesses passwords, or mistypes one.",
        ),
        c.STATE_SAVED_AT: Facts(
            besides="Absent until the first write.",
            purpose="Falls behind where state_dir cannot be written: a restart would then forget.",
        ),
        c.INPUT_UP: Facts(besides="Ends when the input is no longer read."),
        c.INPUT_LAST_SUCCESS: Facts(
            besides="Absent until an attempt works; ends when the input is no longer read."
        ),
        c.INPUT_ERRORS: Facts(besides=f"{_COUNTED} Ends when the input is no longer read."),
        c.TAIL_RECORDS: Facts(besides="Ends when the topic is no longer read."),
        c.TAIL_CAUGHT_UP: Facts(besides="Ends when the topic is no longer read."),
        c.TAIL_BEHIND: Facts(
            besides="Absent while that `tail` is stale or not caught up: it is unknown then."
        ),
        c.SERIES_DROPPED: Facts(besides=_COUNTED),
        m.PROBE_READS: Facts(
            besides=_COUNTED,
            purpose="What lag in seconds costs upstream, in reads of single records.",
        ),
        m.PROBE_SKIPPED: Facts(
            besides=_COUNTED,
            purpose="`denied`: lag in seconds comes from log ends alone; `budget`: raise `probes`.",
        ),
        c.NOTIFICATIONS_FAILED: Facts(
            besides=_COUNTED,
            purpose="Findings that Alertmanager or a webhook did not take: people hear late.",
        ),
        c.HOOKS_RECEIVED: Facts(
            besides=_COUNTED,
            purpose="Whether alerts reach the control listener, and why some are refused.",
        ),
        c.CONTROL_REFUSED: Facts(
            besides=_COUNTED,
            purpose="`unauthorised` and `throttled`: a client guesses tokens, or its own is wrong.",
        ),
    },
    "Connectors and tasks": {
        c.CONNECTOR_STATE: Facts((Need.LISTING,)),
        c.TASK_STATE: Facts((Need.LISTING,), "No series for a connector without tasks."),
        c.CONNECTOR_TASKS: Facts((Need.LISTING,)),
        c.CONNECTOR_INFO: Facts((Need.LISTING,)),
        c.PROGRESS: Facts(
            besides="Stays while an input is stale: the verdict is `unknown` then, which is also "
            "what a connector begins with.",
            purpose="The verdict to alert on: it needs no threshold of your own.",
        ),
        c.FINDINGS: Facts(
            besides="A finding in an input that can no longer be read stays, and says when it was "
            "last seen; no series where there is none.",
            purpose="What is wrong now, by name and severity, for rules and for a first look.",
        ),
        c.EXPECTED_INTERVAL: Facts(
            (Need.LISTING,),
            "Absent while baselines are not valid, and for hours without a usual interval.",
            "To hold the age of the last advance against what is usual at this hour.",
        ),
        c.EXPECTED_COMMITS: Facts(
            (Need.LISTING,),
            "Absent while baselines are not valid.",
            "To hold the age of the last commit against what is usual.",
        ),
        c.EXPECTED_LAG: Facts(
            (Need.LISTING,),
            "Absent while baselines are not valid, and where no lag was learned.",
            "To hold the summed lag of a mirror against what is usual at this hour.",
        ),
    },
    "Source offsets": {
        c.POSITION: Facts(
            (Need.OFFSETS,), _FORGOTTEN, "The position itself, to be held against the source's."
        ),
        c.LAST_COMMIT: Facts((Need.OFFSETS,), _FORGOTTEN),
        c.LAST_ADVANCE: Facts((Need.OFFSETS,), _FORGOTTEN),
        c.COMMITS: Facts((Need.OFFSETS,)),
        c.ADVANCES: Facts(
            (Need.OFFSETS,), purpose="Whether a partition moves at all, beside its commits."
        ),
        c.REWINDS: Facts((Need.OFFSETS,)),
        c.RESETS: Facts((Need.OFFSETS,)),
        c.FROM_REST: Facts(
            besides="Only for connectors whose offsets are in no topic and no consumer group.",
            purpose="To know which positions are as old as a poll and have no times of commits.",
        ),
        c.EVENT_TIME: Facts(
            (Need.OFFSETS,),
            "Only where the connector keeps a time in its offset.",
            "How old the newest change is that the connector has taken from its source.",
        ),
    },
    "Source ends": {
        s.END_POSITION: Facts(
            _ENDS,
            "Not during a snapshot.",
            "The end itself, to be held against `source_offset_position`.",
        ),
        s.LAG_BYTES: Facts(_ENDS, f"{_NO_NUMBERS} Not for columns of a table."),
        s.LAG_TRANSACTIONS: Facts(_ENDS, f"{_NO_NUMBERS} Only where offsets have GTIDs."),
        s.LAG_ROWS: Facts(_ENDS, f"{_NO_NUMBERS} Only where an ascending column orders the rows."),
        s.LAG_SECONDS: Facts(
            _ENDS,
            f"{_NO_NUMBERS} Absent where the end was never seen at the position, and without the "
            "right to see the connector's connection.",
        ),
        s.CAUGHT_UP: Facts(
            _ENDS,
            f"{_NO_NUMBERS} Absent without a connection of the connector, or the right to see it.",
            "Distinguishes a connector without work from one that its source sends nothing.",
        ),
        s.HEADROOM_BYTES: Facts(
            _ENDS, "Absent where the source has no limit, and during a snapshot."
        ),
        s.SLOT_ACTIVE: Facts(
            _ENDS,
            "Only for PostgreSQL, where the slot's name is known.",
            "0 while the connector runs: the server retains WAL that nothing reads.",
        ),
        s.IN_SNAPSHOT: Facts(
            _ENDS,
            "Only for Debezium.",
            "Why there is no lag, and that the connector works.",
        ),
        s.AHEAD: Facts(
            _ENDS,
            _NO_NUMBERS,
            "Anything but 0: what the source writes up to there is never read.",
        ),
    },
    "Replication": {
        m.LOG_START: Facts(
            _LAGS, _NO_SYNCS, "With the replicated offset: how near retention is, seen by hand."
        ),
        m.LOG_END: Facts(_LAGS, _NO_SYNCS),
        m.REPLICATED: Facts(_POSITIONS, _NO_SYNCS),
        m.LAG: Facts(_LAGS, _NO_SYNCS),
        m.AHEAD: Facts(_LAGS, _NO_SYNCS),
        m.LAG_SECONDS: Facts(
            _LAGS,
            f"{_NO_SYNCS} Absent where the log end was never seen at the position and no record "
            "was read.",
            "The lag to promise something about: it grows while replication stands still.",
        ),
        m.CAUGHT_UP: Facts(
            _LAGS,
            f"{_NO_SYNCS} Absent until a read has succeeded.",
            "Distinguishes a flow at rest from one with a record to copy, where offsets cannot.",
        ),
        m.TOPIC_LAG: Facts(
            _LAGS,
            f"{_NO_SYNCS} Only where `granularity: topic` or a budget of series asks for it.",
            "In place of the lag of each partition.",
        ),
        m.TOPIC_LAG_SECONDS: Facts(
            _LAGS,
            f"{_NO_SYNCS} Only where `granularity: topic` or a budget of series asks for it.",
            "In place of the lag in seconds of each partition.",
        ),
        m.HEADROOM: Facts(
            _LAGS, _NO_SYNCS, "Negative: records were deleted before they were copied."
        ),
        m.HEADROOM_SECONDS: Facts(
            _LAGS,
            f"{_NO_SYNCS} Absent while the log start does not come closer.",
            "How long there is to act before retention takes what is not copied.",
        ),
        m.LOST: Facts(
            _POSITIONS, _NO_SYNCS, "Any increase is a loss downstream; the ranges are in the API."
        ),
        m.RECREATIONS: Facts(
            _POSITIONS, _NO_SYNCS, "Any increase: the flow's offsets are of another topic now."
        ),
        m.SYNC_UPSTREAM: Facts(
            (Need.SYNCS,), purpose="How far MirrorMaker's translation of offsets reaches."
        ),
        m.SYNC_DOWNSTREAM: Facts(
            (Need.SYNCS,), purpose="Where the copy of that record lies, to look it up."
        ),
        m.SYNC_AT: Facts(
            (Need.SYNCS,), purpose="How old the newest sync is; syncs stop where copying stops."
        ),
    },
    "Failover of consumer groups": {
        m.GROUP_REREAD: Facts(
            _GROUPS,
            "Absent where it is not known: see docs/numbers.md.",
            "What a failover would read twice, before one is decided on.",
        ),
        m.GROUP_SKIP: Facts(
            _GROUPS,
            "Absent where it is not known: see docs/numbers.md.",
            "What a failover would never read: anything but 0 is to be known before one.",
        ),
        m.CHECKPOINT_AT: Facts(
            (Need.CHECKPOINTS,),
            "Not for groups without an offset upstream.",
            "Whether the checkpoint connector still writes for a group.",
        ),
        m.HEARTBEAT_AT: Facts(
            (Need.HEARTBEATS,),
            purpose="Whether the heartbeat connector is alive, and its record gets through.",
        ),
    },
    "Sinks": {
        c.SINK_LAG: Facts((Need.SINKS,), "Absent where the log end is unknown."),
        c.SINK_LAG_SECONDS: Facts(
            (Need.SINKS,),
            "Absent where neither a log end nor a read of the log has it.",
            "0 for a sink that rests behind a transaction marker, whose lag in records is 1.",
        ),
    },
    "Internal topics": {
        c.TOPIC_PROBLEM: Facts(
            besides="Absent once the Kafka cluster could not be read for sixteen minutes; "
            "`shared` also needs the tails of the offsets topics.",
            purpose="One series for each problem to fix; `doctor` says how.",
        ),
    },
    "Remediation": {
        c.REMEDIATION_MODE: Facts(
            besides=_REMEDY, purpose="Whether anything may be done by itself just now."
        ),
        c.REMEDIATION_PLANS: Facts(
            besides=_REMEDY, purpose="`proposed` waits for an approval, `parked` for a decision."
        ),
        c.REMEDIATION_ACTIONS: Facts(
            besides=f"{_REMEDY} {_COUNTED}", purpose="What was done, and how it ended."
        ),
        c.REMEDIATION_BLOCKED: Facts(
            besides=f"{_REMEDY} {_COUNTED}",
            purpose="Which guard denies remediation, and how often.",
        ),
        c.REMEDIATION_STOPPED_SINCE: Facts(
            besides=f"{_REMEDY} Only while a connector is held stopped.",
            purpose="A dead man's switch: a connector that remediation has stopped for too long.",
        ),
        c.REMEDIATION_HEARTBEAT: Facts(
            besides=_REMEDY, purpose="Falls behind where the loop of remediation hangs."
        ),
        c.REMEDIATION_LEADER: Facts(
            besides="Only with `remedy.journal`.",
            purpose="Which replica acts: `sum` of it is 1 but for the moments of a takeover.",
        ),
        c.REMEDIATION_JOURNAL_SEQ: Facts(
            besides="Only with `remedy.journal`.",
            purpose="How far a replica is behind the one that leads, in records of the journal.",
        ),
    },
    "The history pipeline": {
        c.HISTORY_BATCH_AT: Facts(besides=_HISTORY, purpose="When the pipeline last did its work."),
        c.HISTORY_BEHIND: Facts(
            besides="Absent once its newest batch is older than three cadences and five minutes.",
            purpose="What the pipeline has still to read; compaction may take it before.",
        ),
        c.HISTORY_RECORDS: Facts(
            besides=_HISTORY, purpose="How much is stored, and how much of it cannot be decoded."
        ),
        c.HISTORY_ERRORS: Facts(besides=_HISTORY, purpose="Why runs failed, by reason."),
        c.HISTORY_GAPS: Facts(
            besides=_HISTORY, purpose="Any increase: records that no as-of will ever know."
        ),
        c.HISTORY_TABLE_AT: Facts(besides=_HISTORY),
        c.HISTORY_BASELINES: Facts(
            besides="Absent where none was published.",
            purpose="0: verdicts go by fixed rules, and the `expected_` series are gone.",
        ),
    },
}


def of_all() -> dict[MetricSpec, Facts]:
    """Without their groups."""
    return {spec: facts for group in FACTS.values() for spec, facts in group.items()}
