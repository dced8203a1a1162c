"""Inputs that a finding depends on, and which of them are unavailable. Pure.

A finding that is no longer found has ended only if it could have been found.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.model.findings import Finding, FindingName
from offsetwatch.model.observations import CONNECT_REST, InputId
from offsetwatch.model.topology import Topology
from offsetwatch.state.snapshot import Snapshot


class UnavailableInputIndex:
    """Inputs of one snapshot that are not live, by the Connect cluster that depends on them.

    It also has the connectors whose state or configuration the REST API does not report.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._visibility = InputVisibility(snapshot)
        self._topology = snapshot.topology
        self._down = tuple(view.id for view in snapshot.inputs if not view.live)
        self._by_cluster: dict[str, frozenset[InputId]] = {}

    def to(self, finding: Finding) -> frozenset[InputId]:
        """Return the unavailable inputs that this finding may depend on.

        Rather one too many than one too few. A finding that an input is down depends on no other
        input.
        """
        name = finding.connect_cluster
        if finding.name is FindingName.INPUT_DOWN:
            return frozenset()
        if name not in self._by_cluster:
            self._by_cluster[name] = frozenset(self._of(name))
        found = self._by_cluster[name]
        if finding.connector is None:
            return found
        key = (name, finding.connector)
        if (
            self._visibility.explain_unknown_state(key) is not None
            or self._visibility.explain_missing_configuration(key) is not None
        ):
            return found | {InputId(CONNECT_REST, connect_cluster=name)}
        return found

    def deleted(self, finding: Finding) -> bool:
        """Check whether the finding's connector no longer exists."""
        name = finding.connector
        return name is not None and self._visibility.is_deleted((finding.connect_cluster, name))

    def _of(self, connect_cluster: str) -> Iterator[InputId]:
        homes = {
            topic.at.kafka
            for topic in self._topology.offsets_topics
            if topic.connect_cluster == connect_cluster
        }
        kafkas = homes | _find_related_kafkas(self._topology, connect_cluster)
        for input_id in self._down:
            # What REST tells of one connector's offsets, the findings of others do not rest on.
            of_cluster = input_id.connect_cluster == connect_cluster and not input_id.connector
            if not homes or of_cluster or input_id.kafka in kafkas:
                yield input_id


def _find_related_kafkas(topology: Topology, connect_cluster: str) -> set[str]:
    """Return the Kafka clusters that a Connect cluster uses, beside that of its offsets topic."""
    found: set[str | None] = set()
    for flow in topology.flows:
        if flow.connect_cluster == connect_cluster:
            found.add(flow.upstream)
            found.add(None if flow.offset_syncs is None else flow.offset_syncs.kafka)
    found |= {sink.kafka for sink in topology.sinks if sink.connect_cluster == connect_cluster}
    for listing in topology.listings:
        if listing.connect_cluster == connect_cluster:
            found |= {topic.kafka for topic in listing.topics()}
    return {name for name in found if name is not None}
