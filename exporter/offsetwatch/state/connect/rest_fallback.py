"""Which connectors REST tells of because a tail cannot."""

from __future__ import annotations

from offsetwatch.model.observations import TAIL, InputId, build_rest_offsets_input
from offsetwatch.state.snapshot import InputView, RestConnector, Snapshot


def find_polled_connectors(snapshot: Snapshot, view: InputView) -> tuple[RestConnector, ...]:
    """Return the source connectors whose offsets REST tells now, as this tail tells nothing."""
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
    """Was this tail never read, and does REST tell all that it would? A standalone worker keeps
    its offsets in a file, and a managed Connect shows its topic to nobody.
    """
    return view.last_success_at is None and bool(find_polled_connectors(snapshot, view))
