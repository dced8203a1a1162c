"""State of all replication flows: committed offsets, offset syncs, log ends and assignments.

A part is only shown while the tails that it comes from are live.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from operator import attrgetter, is_
from typing import Final

from offsetwatch.model.observations import (
    LOG_ENDS,
    AssignmentConfirmed,
    InputId,
    LogEndsRead,
    LogEndsRequested,
    ProbeRoundRead,
    TailRead,
)
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import FlowKey, KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.connect.connect_cluster import ConnectClusterState
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.loss.accounting import FlowInspection, LossAccounting, classify_activity
from offsetwatch.state.memo import Memo, TupleMemo
from offsetwatch.state.mirror.assignment_doubts import AssignmentDoubts
from offsetwatch.state.mirror.lag import MirrorPosition, OldestRecordAges
from offsetwatch.state.mirror.mm2_names import find_rerouted_topics
from offsetwatch.state.mirror.offset_syncs import (
    SyncBook,
    SyncLeads,
    SyncsSinceLastPoll,
    build_sync_views,
)
from offsetwatch.state.mirror.offset_translation import PartitionSyncs
from offsetwatch.state.mirror.replicated_partitions import (
    LogEndsBook,
    MirrorViews,
    ReplicatedPartition,
    UnassignedPartitions,
    build_replicated_partitions,
    find_partition_index,
    upstream_of,
)
from offsetwatch.state.snapshot import (
    AssignmentDoubt,
    Loss,
    MirrorPartitionView,
    SyncView,
    TopicRecreation,
)

# The settings that determine the names of a flow's copies.
_naming_of: Callable[[MirrorFlow], object] = attrgetter("policy", "separator", "routers", "copies")

LossReport = tuple[tuple[Loss, ...], tuple[TopicRecreation, ...]]
# By offset-syncs topic, the partitions whose syncs may be of another flow.
SharedSyncs = Mapping[KafkaTopic | None, frozenset[TopicPartition]]


# While the list of connectors is read, and the tasks of one are not: as long as a configuration.
ASSIGNMENT_INTERVALS: Final = 10.0
COMMIT_INTERVALS: Final = 1.0  # what is committed later than this shows what is still copied


@dataclass(slots=True)
class _Assignment:
    """Upstream partitions that a connector copies.

    reported           as last reported
    reported_at        when that was; None: always, as its cluster's topics say
    partitions         as far as that can still be used: from ASSIGNMENT_INTERVALS without a report
                       on, those that were committed within the last ones
    at                 as of when they are; None like `reported_at`
    commits_outside    commits of other partitions by then
    unread_since       since when the list of connectors is read, and this is not
    commits            commits of all partitions when that had lasted for COMMIT_INTERVALS
    doubts             what contradicts it
    """

    reported: frozenset[TopicPartition]
    partitions: frozenset[TopicPartition]
    reported_at: float | None = None
    at: float | None = None
    commits_outside: dict[MirrorPartition, MirrorPosition] = field(default_factory=dict)
    unread_since: float = 0.0
    commits: dict[MirrorPartition, MirrorPosition] | None = None
    outdated: bool = False
    doubts: AssignmentDoubts = field(default_factory=AssignmentDoubts)


_Commits = Collection[tuple[MirrorPartition, MirrorPosition]]


def _report_assignment(assignment: _Assignment, commits: _Commits, moment: float) -> None:
    """Record when an assignment was reported, and the commits outside of it by then."""
    assignment.reported_at = moment
    assignment.partitions, assignment.outdated = assignment.reported, False
    _date_assignment(assignment, commits, moment)


def _date_assignment(assignment: _Assignment, commits: _Commits, moment: float) -> None:
    assignment.at = assignment.unread_since = moment
    assignment.commits = None
    assignment.commits_outside = {
        mirror: position
        for mirror, position in commits
        if mirror.upstream not in assignment.partitions
    }


def _find_commits_since(
    assignment: _Assignment, partitions: frozenset[TopicPartition], commits: _Commits
) -> frozenset[TopicPartition]:
    """Return the partitions beside these that were committed since the assignment was dated.

    Not one that was by any clock committed before: its topic was read later.
    """
    return frozenset(
        mirror.upstream
        for mirror, position in commits
        if mirror.upstream not in partitions
        and assignment.at is not None
        and assignment.commits_outside.get(mirror) != position
        and not is_later(assignment.at, position.at)
    )


def _leads_key_of(flow: MirrorFlow) -> tuple[object, ...]:
    """Return what a flow's commits and syncs are of, whatever else its configuration has."""
    return flow.connector_flow_key, flow.upstream, flow.offset_syncs


class Replication:
    """State of all replication flows, and the views built from it."""

    def __init__(
        self, clusters: Mapping[str, ConnectClusterState], inputs: Inputs, interval_s: float
    ) -> None:
        self.losses = LossAccounting()
        self.flows: tuple[MirrorFlow, ...] = ()
        self._clusters = clusters
        self._inputs = inputs
        self._syncs: dict[KafkaTopic, SyncBook] = {}
        self._dropped_syncs = 0
        self._ends = LogEndsBook()
        self._ages = OldestRecordAges()
        self._aged: dict[str, list[tuple[ReplicatedPartition, ...]]] = {}
        self._flows_of: Counter[tuple[str, str]] = Counter()
        self._known_positions: dict[
            MirrorFlow, tuple[tuple[object, ...], tuple[ReplicatedPartition, ...]]
        ] = {}
        self._views = MirrorViews(self._ends, self._ages, self.losses)
        self._joined: TupleMemo[MirrorPartitionView] = TupleMemo()
        self._assignments: dict[tuple[str, str], _Assignment] = {}
        self._outdated: set[MirrorFlow] = set()
        self._report: Memo[LossReport] = Memo()
        self._shared_syncs_memo: Memo[SharedSyncs] = Memo()
        self._sync_views_memo: Memo[tuple[SyncView, ...]] = Memo()
        self._interval_s = interval_s
        self._leads: dict[tuple[object, ...], SyncLeads] = {}
        self._unassigned = UnassignedPartitions()
        self._now = 0.0

    # --- taking in -------------------------------------------------------------------------------

    def follow(self, flows: tuple[MirrorFlow, ...]) -> None:
        """Replace the flows. The assignment of a connector that is gone is forgotten."""
        self._forget_outdated_copies(flows)
        self.flows = flows
        self._flows_of = Counter(flow.connector_key for flow in flows)
        listed = self._listed()
        self._assignments = {
            key: assignment for key, assignment in self._assignments.items() if key in listed
        }
        self._outdated &= set(flows)
        self._views.keep(flows)
        self._unassigned.keep(flows)
        for flow in self._known_positions.keys() - set(flows):
            del self._known_positions[flow]
        for key in self._leads.keys() - set(map(_leads_key_of, flows)):
            del self._leads[key]
        for flow in flows:
            leads = self._leads.get(_leads_key_of(flow))
            connector = self._clusters[flow.connect_cluster].by_name.get(flow.connector)
            failed = connector is not None and any(
                task.state == "failed" for task in connector.tasks
            )
            if failed and leads is not None and leads.void(self._now):
                self._known_positions.pop(flow, None)

    def _forget_outdated_copies(self, flows: tuple[MirrorFlow, ...]) -> None:
        """Forget the downstream side of syncs if copies now go to another topic.

        This includes syncs that arrived before the new configuration was read: they may name either
        topic.
        """
        known = {(flow.key, flow.connector): flow for flow in self.flows}
        for flow in flows:
            last = known.get((flow.key, flow.connector))
            syncs = self._syncs_of(flow)
            if last is not None and syncs is not None and _naming_of(last) != _naming_of(flow):
                topics = {partition.topic for partition in syncs.read}
                syncs.forget_copies(find_rerouted_topics(last, flow, topics))

    def apply(self, read: TailRead, now: float) -> None:
        """Apply the offset syncs of a tail, if it has any."""
        self._now = now
        syncs = read.sync_records()
        if syncs or read.topic in self._syncs:
            book = self._syncs.setdefault(read.topic, SyncBook())
            book.apply(syncs, now, whole=read.whole)

    def retire(self, tail: InputId) -> None:
        """Forget the syncs of a tail that has ended: its topic would be read from the start."""
        for topic in [topic for topic in self._syncs if InputId.of_tail(topic) == tail]:
            self._dropped_syncs += self._syncs.pop(topic).dropped

    def assign(
        self,
        connect_cluster: str,
        connector: str,
        partitions: frozenset[TopicPartition] | None,
        moment: float | None = None,
        tasks: int | None = None,
    ) -> None:
        """Set the upstream partitions that a connector copies, as of `moment`.

        None as `moment` means always, as its cluster's own topics say. None as `partitions` means
        not known. A response that arrives after the connector was deleted is dropped: it must not
        apply to the next one of that name.
        """
        of = (connect_cluster, connector)
        known = self._assignments.pop(of, None)
        if partitions is not None and of in self._listed():
            # The same object: else each snapshot would compare the two, a thousand partitions each.
            same = known is not None and known.reported == partitions
            assignment = known if known and same else _Assignment(partitions, partitions)
            self._assignments[of] = assignment
            if known is not None:
                assignment.doubts = known.doubts
            if moment is None:
                return
            commits = tuple(self._find_commits(of))
            if known is not None:
                self._compare_commits(known, commits, moment)
            listed = self._clusters[connect_cluster].by_name.get(connector)
            assignment.doubts.compare_tasks(tasks, listed, moment)
            rejected = self._find_rejected_topics(of, partitions, moment)
            assignment.doubts.count_rejected(rejected, moment)
            _report_assignment(assignment, commits, moment)

    def _find_rejected_topics(
        self, of: tuple[str, str], partitions: frozenset[TopicPartition], now: float
    ) -> frozenset[str]:
        """Return the topics of tasks that the connector's configuration does not select."""
        rejected: frozenset[str] = frozenset()
        for flow in self.flows if self._flows_of[of] == 1 else ():
            filtered = self._unassigned.filtered(flow) if flow.connector_key == of else None
            if filtered is not None and self._are_ends_live(flow, now):
                rejected = filtered.rejected.intersection(
                    partition.topic for partition in partitions
                )
        return rejected

    def _are_ends_live(self, flow: MirrorFlow, now: float) -> bool:
        return flow.upstream is not None and self._inputs.live(
            InputId(LOG_ENDS, kafka=flow.upstream), now
        )

    def _compare_commits(self, assignment: _Assignment, commits: _Commits, moment: float) -> None:
        """Count the partitions that were committed since a report that does not have them."""
        if not assignment.outdated:
            moved = _find_commits_since(assignment, assignment.reported, commits)
            assignment.doubts.count_commits(moved, moment, self._interval_s)

    def assignment_doubts(self) -> dict[tuple[str, str], AssignmentDoubt]:
        """Return what contradicts the assignments of connectors, where anything does."""
        doubts = {
            of: assignment.doubts.find(self._interval_s)
            for of, assignment in self._assignments.items()
        }
        return {of: doubt for of, doubt in doubts.items() if doubt is not None}

    def confirm(self, confirmed: AssignmentConfirmed, now: float) -> None:
        """Confirm that a connector still copies what it was assigned."""
        of = (confirmed.connect_cluster, confirmed.connector)
        if of in self._assignments:
            _report_assignment(self._assignments[of], tuple(self._find_commits(of)), now)

    def _find_commits(
        self, of: tuple[str, str]
    ) -> Iterator[tuple[MirrorPartition, MirrorPosition]]:
        for flow in self.flows:
            if flow.connector_key == of:
                yield from self._committed(flow).items()

    def expire(self, now: float) -> None:
        """Replace assignments that no response has confirmed for ASSIGNMENT_INTERVALS.

        What remains is what was committed meanwhile, and that for as long. Time without a list of
        connectors does not count: workers that are away for an upgrade assign nothing.
        """
        for of, assignment in self._assignments.items():
            if assignment.reported_at is None:
                continue
            if not self._clusters[of[0]].listing_live(now):
                assignment.unread_since = now
                continue
            unread_s = abs(now - assignment.unread_since)
            if assignment.commits is None and unread_s > COMMIT_INTERVALS * self._interval_s:
                assignment.commits = dict(self._find_commits(of))
            elif unread_s > ASSIGNMENT_INTERVALS * self._interval_s:
                before = assignment.commits or {}
                commits = tuple(self._find_commits(of))
                assignment.partitions = frozenset(
                    mirror.upstream
                    for mirror, position in commits
                    if before.get(mirror) != position
                )
                assignment.outdated = True
                _date_assignment(assignment, commits, now)

    def outdated_assignments(self) -> dict[tuple[str, str], float]:
        """Return the connectors whose assignment is outdated, and when it was last reported."""
        return {
            of: assignment.reported_at
            for of, assignment in self._assignments.items()
            if assignment.outdated and assignment.reported_at is not None
        }

    def _assigned_to(self, flow: MirrorFlow) -> frozenset[TopicPartition] | None:
        assignment = self._assignments.get(flow.connector_key)
        return None if assignment is None else assignment.reported

    def _syncs_of(self, flow: MirrorFlow) -> SyncBook | None:
        return None if flow.offset_syncs is None else self._syncs.get(flow.offset_syncs)

    def _listed(self) -> frozenset[tuple[str, str]]:
        return frozenset(
            flow.connector_key
            for flow in self.flows
            if not self._clusters[flow.connect_cluster].gone(flow.connector)
        )

    def request_log_ends(self, request: LogEndsRequested, now: float) -> None:
        """Store the positions that are known before the log ends of a cluster are requested."""
        self._now = now
        flows = [flow for flow in self._find_exported_flows(now) if flow.upstream == request.kafka]
        known = dict(zip(flows, self._find_positions(flows), strict=True))
        requested_at = now if request.at is None else request.at
        self._ends.request(request.kafka, request.number, known, requested_at)

    def apply_log_ends(self, log_ends: LogEndsRead, now: float) -> None:
        """Apply a response with the log ends of a cluster."""
        self._unassigned.count(log_ends)
        requested_at = self._ends.read(log_ends.kafka, log_ends.number, log_ends.bounds)
        if requested_at is not None:
            self._ages.identify(log_ends.kafka, log_ends.ids or {}, now)
            self._apply_to_ages(log_ends.kafka, requested_at, now)
            self._inspect_losses(log_ends, now)

    def _inspect_losses(self, log_ends: LogEndsRead, now: float) -> None:
        """Account the losses of all flows of a cluster that responded with its log ends."""
        known, shared = self._ends.known(log_ends.kafka), self._shared_syncs()
        for flow in self.flows:
            partitions = known.get(flow)
            if not partitions:
                continue
            syncs = self._syncs_of(flow)
            not_ours = shared.get(flow.offset_syncs, frozenset())
            cluster = self._clusters[flow.connect_cluster]
            connector = cluster.by_name.get(flow.connector)
            inspected = self.losses.inspect(
                FlowInspection(
                    now=now,
                    flow=flow,
                    known={
                        position.upstream: position.copied
                        for position in _select_topics(partitions, log_ends.ids)
                    },
                    bounds=log_ends.bounds,
                    ids=log_ends.ids,
                    doing=classify_activity(connector, live=cluster.listing_live(now)),
                    came=() if syncs is None else syncs.gaps.came,
                    syncs_of=partial(_find_syncs, syncs, not_ours),
                    patience_s=self._interval_s,
                )
            )
            if syncs is not None:
                syncs.gaps.forget(inspected.difference(not_ours))

    def _apply_to_ages(self, kafka: str, moment: float, now: float) -> None:
        """Pass a response of a cluster to the record ages: all bounds, or only the changed ones."""
        flows = [flow for flow in self.flows if flow.upstream == kafka]
        parts = self._find_positions(flows)
        known, changed = self._ends.known(kafka), self._ends.changed(kafka)
        requested = [known.get(flow) for flow in flows]
        before = self._aged.get(kafka, [])
        rest = all(a is b is c for a, b, c in zip_longest(parts, requested, before))
        self._aged[kafka] = parts if all(map(is_, parts, requested)) else []
        if rest and changed is not None:
            moved = _select_partitions(parts, changed)
            followers = ((position.where, self._ends.unread_range(position)) for position in moved)
            if self._ages.apply_changed_bounds(kafka, followers, at=moment, now=now):
                return
        positions = chain.from_iterable(parts)
        followers = ((position.where, self._ends.unread_range(position)) for position in positions)
        self._ages.apply_bounds(kafka, followers, at=moment, now=now)

    def apply_probes(self, probe_round: ProbeRoundRead) -> None:
        """Apply the results of probes."""
        self._views.apply_probes(self._ages.apply_probes(probe_round.answers, probe_round.at))

    # --- giving out ------------------------------------------------------------------------------

    def upstreams(self) -> tuple[str, ...]:
        """Return every configured Kafka cluster that a flow reads from."""
        return tuple(sorted({flow.upstream for flow in self.flows if flow.upstream}))

    def waits_for_ends(self, kafka: str, now: float) -> bool:
        """Return whether there are positions to show, and no response was ever paired with one."""
        if self._ends.compared(kafka):
            return False
        flows = [flow for flow in self._find_exported_flows(now) if flow.upstream == kafka]
        return any(self._find_positions(flows))

    def partial(self) -> frozenset[tuple[str, str]]:
        """Return the connectors of flows that may have positions missing among the views."""
        return frozenset(
            flow.connector_key
            for flow in self.flows
            if self._clusters[flow.connect_cluster].has_unknown_positions(
                flow.connector, flow.source
            )
        ).union(self.outdated_assignments())

    def views(self, now: float) -> tuple[MirrorPartitionView, ...]:
        """Return the views whose inputs are live; the same tuple while nothing changes."""
        self._now = now
        flows = self._find_exported_flows(now)
        for flow in set(self.flows) - set(flows):
            self._known_positions.pop(flow, None)
            if (leads := self._leads.get(_leads_key_of(flow))) is not None:
                leads.forget()
        parts = [
            self._views.of(
                flow,
                partitions,
                live=flow.upstream is not None
                and self._inputs.live(InputId(LOG_ENDS, kafka=flow.upstream), now),
            )
            for flow, partitions in zip(flows, self._find_positions(flows), strict=True)
        ]
        return self._joined.of(tuple(parts))

    def loss_report(self, now: float) -> LossReport:
        """Return losses and recreations of shown flows; the same tuples while nothing changes."""
        flows = self._find_exported_flows(now)
        return self._report.get(
            self.losses.version,
            *flows,
            make=lambda: (self.losses.losses_of(flows), self.losses.recreations_of(flows)),
        )

    def dropped(self) -> dict[str, int]:
        """Return the number of records that limits dropped, by reason."""
        syncs = self._dropped_syncs + sum(book.dropped for book in self._syncs.values())
        dropped = {"syncs": syncs, "unassigned": self._unassigned.dropped}
        return {reason: count for reason, count in dropped.items() if count}

    def sync_views(self, now: float) -> tuple[SyncView, ...]:
        """Return the views of the newest syncs; the same tuple while nothing changes."""
        books: dict[tuple[FlowKey, KafkaTopic], tuple[MirrorFlow, SyncBook]] = {}
        for flow in self.flows:
            topic, book = flow.offset_syncs, self._syncs_of(flow)
            if topic and book and self._inputs.whole(InputId.of_tail(topic), now):
                books.setdefault((flow.key, topic), (flow, book))
        inputs = [(flow, book, book.version) for flow, book in books.values()]
        return self._sync_views_memo.get(
            *chain.from_iterable(inputs), make=lambda: self._build_sync_views(books.values())
        )

    def _build_sync_views(
        self, books: Iterable[tuple[MirrorFlow, SyncBook]]
    ) -> tuple[SyncView, ...]:
        views: dict[tuple[FlowKey, str, int], SyncView] = {}
        for flow, syncs in books:
            wants_topic = self._clusters[flow.connect_cluster].of.wants_topic
            for view in build_sync_views(flow, syncs):
                if wants_topic(view.topic):
                    views.setdefault((flow.key, view.topic, view.partition), view)
        return tuple(views.values())

    def translations(self, flow: MirrorFlow) -> dict[TopicPartition, PartitionSyncs]:
        """Return the syncs of a flow by partition, without those that may be another flow's."""
        syncs = self._syncs_of(flow)
        if syncs is None:
            return {}
        not_ours = self._shared_syncs().get(flow.offset_syncs, frozenset())
        return {
            partition: known for partition, known in syncs.read.items() if partition not in not_ours
        }

    def checkpoint_task_restarted(self, connect_cluster: str) -> None:
        """Assume that a checkpoint task of this Connect cluster has forgotten its syncs."""
        for flow in self.flows:
            if flow.connect_cluster == connect_cluster and flow.offset_syncs in self._syncs:
                for known in self._syncs[flow.offset_syncs].read.values():
                    known.emptied()

    def _find_exported_flows(self, now: float) -> tuple[MirrorFlow, ...]:
        return tuple(flow for flow in self.flows if self.is_exported(flow, now))

    def is_exported(self, flow: MirrorFlow, now: float) -> bool:
        """Return whether a flow can be shown: the tails of its offsets and its syncs are live.

        Without the syncs its progress would be understated.
        """
        if not self._clusters[flow.connect_cluster].is_exported(flow.connector, now):
            return False
        if flow.offset_syncs is None or self._clusters[flow.connect_cluster].polls(flow.connector):
            return True
        tail = InputId.of_tail(flow.offset_syncs)
        state = self._inputs.find(tail)
        if state is not None and state.last_reason == "not_found":
            return True  # no such topic yet: no syncs, and the committed offset is the best
        return self._inputs.whole(tail, now)

    # --- details ---------------------------------------------------------------------------------

    def _find_positions(self, flows: Iterable[MirrorFlow]) -> list[tuple[ReplicatedPartition, ...]]:
        """Return the positions of each flow; the same tuples while nothing changes."""
        shared = self._shared_syncs()
        return [self._positions(flow, shared.get(flow.offset_syncs, frozenset())) for flow in flows]

    def _positions(
        self, flow: MirrorFlow, not_ours: frozenset[TopicPartition]
    ) -> tuple[ReplicatedPartition, ...]:
        """Return the positions of a flow, up to 100,000, rebuilt when an input has changed."""
        syncs = self._syncs_of(flow)
        cluster = self._clusters[flow.connect_cluster]
        assignment = self._assignments.get(flow.connector_key)
        assigned = None if assignment is None else assignment.partitions
        outdated = assignment is not None and assignment.outdated
        # Of two named flows of one connector's name nobody tells for which an assignment is.
        same_connector = self._flows_of[flow.connector_key]
        # How many partitions a topic has is known for as long as the answer that told it.
        counted = self._are_ends_live(flow, self._now)
        unassigned = self._unassigned.of(
            flow,
            assigned if same_connector == 1 and counted and not outdated else None,
            cluster.of.wants_topic,
            self._now,
        )
        state: tuple[object, ...] = (
            *cluster.state_of(flow.connector),
            syncs if syncs is None else (id(syncs), syncs.version),
            assigned,
            not_ours,
            same_connector,
            unassigned,
            None if assignment is None else assignment.doubts.find_committed(self._interval_s),
        )
        # A newer answer hides what was committed since the one before it, where there is any.
        assigned_at = None if assignment is None else assignment.at
        known = self._known_positions.get(flow)
        leads = self._leads.setdefault(_leads_key_of(flow), SyncLeads(self._interval_s))
        hidden_at = assigned_at if flow in self._outdated else None
        if known is None or known[0] != (*state, hidden_at) or self._now >= leads.expires_at:
            committed = self._committed(flow)
            copied = self._find_copied(flow, committed)
            late = {
                partition: since
                for partition, since in unassigned.items()
                if partition not in (copied or ())  # committed after the assignment was reported
                and (
                    MirrorPartition(flow.source, *partition) in committed
                    or cluster.uncommitted(flow.connector, flow.source, partition)
                )
            }
            partitions = build_replicated_partitions(
                flow, committed, syncs, leads, self._now, not_ours, copied, late
            )
            state = (*state, assigned_at if flow in self._outdated else None)
            known = self._known_positions[flow] = (
                state,
                tuple(sorted(partitions, key=upstream_of)),
            )
        return known[1]

    def _committed(self, flow: MirrorFlow) -> dict[MirrorPartition, MirrorPosition]:
        return self._clusters[flow.connect_cluster].mirrored(flow.connector, flow.source)

    def _find_copied(
        self, flow: MirrorFlow, committed: Mapping[MirrorPartition, MirrorPosition]
    ) -> frozenset[TopicPartition] | None:
        """Return the partitions that the flow copies; None if that is not known.

        Assigned partitions are left out if it is not known whether they have an offset: without one
        they would look as if nothing had ever been replicated. Partitions that it committed after
        the assignment was reported are included: it copies them, whatever the assignment says.
        """
        assignment = self._assignments.get(flow.connector_key)
        if assignment is None:
            return None
        cluster = self._clusters[flow.connect_cluster]
        # Two named flows of one connector's name: which of them an assignment is for, it says not.
        alone = self._flows_of[flow.connector_key] == 1
        since = _find_commits_since(assignment, assignment.partitions, committed.items())
        since |= assignment.doubts.find_committed(self._interval_s).intersection(
            mirror.upstream for mirror in committed
        )
        (self._outdated.add if since else self._outdated.discard)(flow)
        return since | frozenset(
            partition
            for partition in assignment.partitions
            if cluster.of.wants_topic(partition.topic)
            and (
                MirrorPartition(flow.source, *partition) in committed
                or (alone and cluster.uncommitted(flow.connector, flow.source, partition))
            )
        )

    def _shared_syncs(self) -> SharedSyncs:
        """Return, by offset-syncs topic, the partitions that several flows copy, as far as known.

        A sync does not name its flow (two flows with one pair of aliases write to one topic). There
        the progress of one flow could hide that the other stands still.
        """
        inputs = [
            (
                flow,
                *self._clusters[flow.connect_cluster].state_of(flow.connector),
                self._assigned_to(flow),
            )
            for flow in self.flows
        ]
        return self._shared_syncs_memo.get(
            *chain.from_iterable(inputs), make=self._build_shared_syncs
        )

    def _build_shared_syncs(self) -> SharedSyncs:
        flows = Counter(flow.offset_syncs for flow in self.flows)
        shared: dict[KafkaTopic | None, frozenset[TopicPartition]] = {}
        for topic in [topic for topic, count in flows.items() if topic is not None and count > 1]:
            writers: Counter[TopicPartition] = Counter()
            for flow in self.flows:
                if flow.offset_syncs == topic:  # it may write syncs before its first commit
                    writers.update(
                        (self._assigned_to(flow) or frozenset())
                        | self._clusters[flow.connect_cluster].claimed(flow.connector, flow.source)
                    )
            shared[topic] = frozenset(where for where, count in writers.items() if count > 1)
        return shared


def _select_partitions(
    parts: Iterable[tuple[ReplicatedPartition, ...]], wheres: Collection[TopicPartition]
) -> Iterator[ReplicatedPartition]:
    for part in parts:
        for where in wheres:
            index = find_partition_index(part, where)
            if index is not None:
                yield part[index]


def _select_topics(
    partitions: tuple[ReplicatedPartition, ...], topics: Collection[str] | None
) -> Iterator[ReplicatedPartition]:
    """Yield the positions in these topics (None: all); `partitions` is sorted by partition."""
    if topics is None:
        yield from partitions
        return
    for topic in topics:
        first = bisect_left(partitions, TopicPartition(topic, -1), key=upstream_of)
        for index in range(first, len(partitions)):
            if partitions[index].upstream.topic != topic:
                break
            yield partitions[index]


def _find_syncs(
    syncs: SyncBook | None, not_ours: Collection[TopicPartition], partition: TopicPartition
) -> SyncsSinceLastPoll | None:
    if syncs is None or partition in not_ours:
        return None
    return syncs.since_inspection(partition)
