"""Connectors whose offsets are polled over REST because a tail cannot read them."""

from __future__ import annotations

from offsetwatch.model.observations import TAIL, InputId, build_rest_offsets_input
from offsetwatch.state.snapshot import InputView, RestConnector, Snapshot


def find_polled_connectors(snapshot: Snapshot, view: InputView) -> tuple[RestConnector, ...]:
    """Return the source connectors whose offsets come from REST now instead of from this tail."""
    if view.id.kind != TAIL:
        return ()
    # While its topic is looked for, a tail has the Connect cluster's name alone.
    clusters = {view.id.connect_cluster} | {
        topic.connect_cluster
        for topic in snapshot.topology.offsets_topics
        if InputId.of_tail(topic.at) == view.id
    }
    live = {input_name.id for input_name in snapshot.inputs if input_name.live}
    return tuple(
        rest_connector
        for rest_connector in snapshot.by_rest
        if rest_connector.connect_cluster in clusters
        and not rest_connector.sink
        and build_rest_offsets_input(rest_connector.connect_cluster, rest_connector.connector)
        in live
    )


def is_replaced_by_rest(snapshot: Snapshot, view: InputView) -> bool:
    """Return whether a tail was never read and REST provides the offsets it would read.

    A standalone worker keeps its offsets in a file, and a managed Connect does not expose its
    topic.
    """
    return view.last_success_at is None and bool(find_polled_connectors(snapshot, view))
