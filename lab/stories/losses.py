"""
Records that MM2 can no longer copy: retention, topics made anew, a position past the end.

What MM2 4.3 does in each case, as seen here: its consumer has auto.offset.reset=earliest, so an
offset out of range is no error. Its tasks stay RUNNING throughout, and REST shows only a number.
"""

from lab.errors import LabError
from lab.stories import cluster_actions
from lab.stories.flow import Deed, Flow, copied, stop


def retention_overtakes(flow: Flow, *, behind: int = 40, purged: int = 25) -> Deed:
    """
    The log start passes the position while the connector is stopped.

    Of `behind` records that wait, the first `purged` are deleted: those are lost.
    """
    stop(flow)
    flow.produce(behind)
    before = flow.deed()
    if before.position is None:
        raise LabError(f"{flow.connector} has no position")
    following = before.position + 1
    cluster_actions.delete_records(flow.lab.west, flow.topic, following + purged)
    return flow.deed(lost=(following, following + purged - 1))


def copy_on(flow: Flow) -> Deed:
    """
    Let it go on: MM2 silently starts at the earliest record there is, and says nothing of the gap.

    Returns once all that is left is copied.
    """
    flow.lab.resume(flow.connector)
    return copied(flow)


def recreated_smaller(flow: Flow, *, records: int = 10) -> Deed:
    """
    Under a running connector the topic is deleted and made again, smaller than the position.

    The consumer is out of range within a second and starts at the earliest record. Returns once the
    position has jumped back, and all of the new topic is copied behind what the old one left.
    """
    cluster_actions.delete_topic(flow.lab.west, flow.topic)
    flow.lab.create_topic("west", flow.topic)
    flow.produce(records)
    return copied(flow)


def recreated_grown(flow: Flow, *, beyond: int = 20) -> Deed:
    """
    The topic is deleted and made again, and grows past the position before MM2 looks again.

    MM2 goes on behind its old position as if nothing had happened: what the new topic holds up to
    there is skipped, and no number shows it. Only the topic's id is another one.
    """
    stop(flow)
    before = flow.deed()
    if before.position is None:
        raise LabError(f"{flow.connector} has no position")
    known = cluster_actions.topic_id(flow.lab.west, flow.topic)
    cluster_actions.delete_topic(flow.lab.west, flow.topic)
    flow.lab.create_topic("west", flow.topic)
    flow.produce(before.position + 1 + beyond)
    if cluster_actions.topic_id(flow.lab.west, flow.topic) == known:
        raise LabError(f"{flow.topic} is the same topic as before")
    return flow.deed(lost=(0, before.position))


def patched_ahead(flow: Flow, *, factor: int = 10) -> Deed:
    """
    A person stops the connector and sets an offset ten times too large: KIP-875 takes it.

    MM2 checks the shape of the offset and not whether such a record exists.
    """
    stop(flow)
    before = flow.deed()
    if before.position is None:
        raise LabError(f"{flow.connector} has no position")
    patch(flow, (before.position + 1) * factor)
    return flow.deed()


def patch(flow: Flow, position: int | None) -> None:
    """Set the offset of a stopped connector; None forgets it."""
    offset = None if position is None else {"offset": position}
    entry = {"partition": flow.partition, "offset": offset}
    flow.lab.alter_offsets(flow.connector, [entry])
    if flow.position() != position:
        raise LabError(f"{flow.connector} is at {flow.position()}, not {position}")
