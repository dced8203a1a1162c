"""Which connectors REST tells of because a tail cannot. Called by rules and by `status`."""

from __future__ import annotations

from offsetwatch.model.observations import TAIL, InputId, build_rest_offsets_input
from offsetwatch.state.snapshot import InputView, RestConnector, Snapshot


def find_polled_connectors(snapshot: Snapshot, view: InputView) -> tuple[RestConnector, ...]:
    """Return the source connectors whose offsets REST tells now, as this tail tells nothing."""
    if view.id.kind != TAIL:
        return ()
    # While its topic is looked for, a tail has the Connect cluster's name alone.
    clusters = {view.id.connect_cluster} | {
        at.connect_cluster
        for at in snapshot.topology.offsets_topics
        if InputId.of_tail(at.at) == view.id
    }
    live = {at.id for at in snapshot.inputs if at.live}
    return tuple(
        at
        for at in snapshot.by_rest
        if at.connect_cluster in clusters
        and not at.sink
        and build_rest_offsets_input(at.connect_cluster, at.connector) in live
    )


def is_replaced_by_rest(snapshot: Snapshot, view: InputView) -> bool:
    """Was this tail never read, and does REST tell all that it would? A standalone worker keeps
    its offsets in a file, and a managed Connect shows its topic to nobody.
    """
    return view.last_success_at is None and bool(find_polled_connectors(snapshot, view))
