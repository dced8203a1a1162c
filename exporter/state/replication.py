"""All replication flows: committed offsets, offset syncs, log ends and assignments of each.

Which parts of them may be shown depends on the tails they come from. Called by the book only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from exporter.model.observations import LOG_ENDS, TAIL, EndsRead, InputId, TailRead
from exporter.model.offsets import MirrorPartition
from exporter.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from exporter.state.inputs import Inputs
from exporter.state.lag import Seen
from exporter.state.mirrors import EndsBook, Position, SyncBook, positions, sync_views
from exporter.state.site import Site
from exporter.state.snapshot import MirrorPartitionView, SyncView


class Replication:
    """See the module. `flows` is set whenever the topology changes."""

    def __init__(self, sites: Mapping[str, Site], inputs: Inputs) -> None:
        self.flows: tuple[MirrorFlow, ...] = ()
        self._sites = sites
        self._inputs = inputs
        self._syncs: dict[KafkaTopic, SyncBook] = {}
        self._ends = EndsBook()
        self._assigned: dict[tuple[str, str], frozenset[TopicPartition]] = {}

    # --- taking in -------------------------------------------------------------------------------

    def apply(self, read: TailRead) -> None:
        """Take in the syncs of a tail, if it has any."""
        syncs = read.sync_records()
        if syncs or read.topic in self._syncs:
            self._syncs.setdefault(read.topic, SyncBook()).apply(syncs, whole=read.whole)

    def assign(
        self, connect_cluster: str, connector: str, partitions: frozenset[TopicPartition]
    ) -> None:
        """This connector copies these upstream partitions and no others."""
        self._assigned[connect_cluster, connector] = partitions

    def forget_unlisted(self) -> None:
        """What a connector was assigned is forgotten with the connector."""
        listed = {(flow.connect_cluster, flow.connector) for flow in self.flows}
        self._assigned = {at: seen for at, seen in self._assigned.items() if at in listed}

    def ends_asked(self, kafka: str, number: int, now: float) -> None:
        """Put aside the positions that are known before a cluster is asked for its log ends."""
        known = {
            at.where: at.replicated for at in self.positions(kafka) if self.shown(at.flow, now)
        }
        self._ends.asked(kafka, number, known)

    def ends_read(self, seen: EndsRead) -> None:
        """The answer."""
        self._ends.read(seen.kafka, seen.number, seen.bounds)

    # --- giving out ------------------------------------------------------------------------------

    def upstreams(self) -> tuple[str, ...]:
        """Every configured Kafka cluster that a flow reads from."""
        return tuple(sorted({flow.upstream for flow in self.flows if flow.upstream}))

    def waits_for_ends(self, kafka: str) -> bool:
        """Are there positions that no answer has been compared with yet?"""
        known = {at.where for at in self.positions(kafka)}
        return bool(known) and not self._ends.answered(kafka, known)

    def positions(self, upstream: str | None = None) -> tuple[Position, ...]:
        """Positions of all flows, or of those that read from one Kafka cluster."""
        found: list[Position] = []
        shared = self._shared_syncs()
        for flow in self.flows:
            if upstream is not None and flow.upstream != upstream:
                continue
            syncs = None if flow.offset_syncs is None else self._syncs.get(flow.offset_syncs)
            not_ours = shared.get(flow.offset_syncs, frozenset())
            found.extend(
                positions(flow, self._committed(flow), syncs, not_ours, self._wanted(flow))
            )
        return tuple(sorted(found, key=lambda at: at.upstream))

    def views(self, now: float) -> tuple[MirrorPartitionView, ...]:
        """Pictures of all replicated partitions that can be vouched for now."""
        ends_live = {
            kafka: self._inputs.live(InputId(kafka, LOG_ENDS), now) for kafka in self.upstreams()
        }
        return tuple(
            self._ends.view(at, live=ends_live.get(at.flow.upstream or "", False))
            for at in self.positions()
            if self.shown(at.flow, now)
        )

    def sync_views(self, now: float) -> tuple[SyncView, ...]:
        """Pictures of the newest syncs. Flows that share a topic share its syncs."""
        views: dict[tuple[str, str, str, str, int], SyncView] = {}
        for flow in self.flows:
            topic = flow.offset_syncs
            if topic is None or topic not in self._syncs:
                continue
            if self._inputs.whole(InputId(str(topic), TAIL), now):
                wants_topic = self._sites[flow.connect_cluster].of.wants_topic
                for view in sync_views(flow, self._syncs[topic]):
                    where = (view.connect_cluster, view.source, view.target)
                    if wants_topic(view.topic):
                        views.setdefault((*where, view.topic, view.partition), view)
        return tuple(views.values())

    def shown(self, flow: MirrorFlow, now: float) -> bool:
        """Both tails must be sound: without the syncs the best progress would be understated."""
        if not self._sites[flow.connect_cluster].shown(flow.connector, now):
            return False
        if flow.offset_syncs is None:
            return True
        tail = InputId(str(flow.offset_syncs), TAIL)
        state = self._inputs.find(tail)
        if state is not None and state.last_reason == "not_found":
            return True  # no such topic yet: no syncs, and the committed offset is the best
        return self._inputs.whole(tail, now)

    # --- details ---------------------------------------------------------------------------------

    def _committed(self, flow: MirrorFlow) -> dict[MirrorPartition, Seen]:
        return self._sites[flow.connect_cluster].mirrored(flow.connector, flow.source)

    def _wanted(self, flow: MirrorFlow) -> frozenset[TopicPartition] | None:
        """The partitions that the flow copies; None if that is not known."""
        assigned = self._assigned.get((flow.connect_cluster, flow.connector))
        if assigned is None:
            return None
        wants_topic = self._sites[flow.connect_cluster].of.wants_topic
        return frozenset(at for at in assigned if wants_topic(at.topic))

    def _shared_syncs(self) -> dict[KafkaTopic | None, frozenset[TopicPartition]]:
        """By offset-syncs topic, the partitions that several flows have a position in.

        A sync does not say whose it is (two flows under one pair of aliases write to one topic), so
        there the progress of one flow could hide that the other stands still.
        """
        flows = Counter(flow.offset_syncs for flow in self.flows)
        found: dict[KafkaTopic | None, frozenset[TopicPartition]] = {}
        for topic in [topic for topic, count in flows.items() if topic is not None and count > 1]:
            claims = Counter(
                TopicPartition(at.topic, at.partition)
                for flow in self.flows
                if flow.offset_syncs == topic
                for at in self._committed(flow)
            )
            found[topic] = frozenset(where for where, count in claims.items() if count > 1)
        return found
