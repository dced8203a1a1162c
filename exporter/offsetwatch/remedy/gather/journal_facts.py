"""Facts about a case in the journal: earlier skips, restarts and breakers. Pure."""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.drivers.probation import parse_position
from offsetwatch.remedy.gather.snapshot_queries import RemediationCase, is_same_partition
from offsetwatch.remedy.model import facts, fleet_state
from offsetwatch.remedy.model.incidents import Incident
from offsetwatch.remedy.model.plan import PartitionOffset

SETTLED_S: Final = 15.0  # after a restart a task's state is what it is by then


def collect_journal_facts(
    past: fleet_state.FleetState, case: RemediationCase, pairs: tuple[PartitionOffset, ...] | None
) -> facts.JournalFacts:
    """Build the facts that the journal has about this connector and about all."""
    own = (case.connect, case.connector)
    mine = None if case.plan is None else case.plan.plan_id
    skips = [skip for skip in past.skips if skip.plan_id != mine]
    ended = past.ended_at.get(own)
    key = None if case.incident is None else case.incident.key
    return facts.JournalFacts(
        skips=tuple(skips),
        remedied_at=() if ended is None else (ended,),
        breakers=tuple(past.breakers.values()),
        approved_successes=past.successes[own, case.action],
        restarted_at=tuple(
            restart.at for restart in past.restarts if key is None or restart.incident == key
        ),
        records_since_skip=_count_records_since_skip(skips, own, pairs),
    )


def count_ineffective_restarts(past: fleet_state.FleetState, incident: Incident, now: float) -> int:
    """Count restarts after which the connector still fails and that its run of failures lacks.

    The journal has them: restarts by this daemon for the incident, or by an operator. Where no
    status topic is followed, the run misses the restart of a task that failed again at once or
    while no daemon ran.
    """
    run = incident.worst
    if run is None or not incident.shows:
        return 0
    told_at = run.last_at if run.read_at is None else run.read_at
    own = (incident.connect_cluster, incident.connector)
    return sum(
        restart.whose == own
        and restart.incident in {incident.key, ""}
        and told_at < restart.at <= now - SETTLED_S
        for restart in past.restarts
    )


def _count_records_since_skip(
    skips: list[fleet_state.RecordSkip],
    own: tuple[str, str],
    pairs: tuple[PartitionOffset, ...] | None,
) -> int | None:
    """Return at least how many records followed the last skip in its partition; None if unknown."""
    mine = [skip for skip in skips if skip.whose == own]
    if not mine or pairs is None:
        return None
    last = max(mine, key=lambda skip: skip.at).record
    for pair in pairs:
        if is_same_partition(pair.partition, last.topic, last.partition):
            position = parse_position(pair)
            return None if position is None else max(0, position - last.offset - 1)
    return None
