"""Positions lost or kept against expectation: half resets, copies made twice, remnants."""

from lab.errors import LabError
from lab.stories import cluster_actions
from lab.stories.flow import DEADLINE_S, OFFSETS_TOPIC, Deed, Flow, copied, stop
from lab.waiting import NotYet, until


def offsets_reset(flow: Flow) -> Deed:
    """Half a reset: the stopped connector forgets its offsets, its offset syncs stay."""
    stop(flow)
    flow.lab.reset_offsets(flow.connector)
    action = flow.deed()
    if action.position is not None or not cluster_actions.records(flow.lab.west, flow.syncs):
        raise LabError(f"position {action.position}, syncs must be left")
    return action


def syncs_deleted(flow: Flow) -> Deed:
    """
    The other half: the topic of the offset syncs is deleted under the running connector.

    Nothing tells: the task stays RUNNING and its offsets advance. Only the producer of the syncs
    complains in the log, and checkpoints get no further. The topic comes back when the connector,
    not only its task, is started again; syncs that the producer still held arrive in it then.
    """
    cluster_actions.delete_topic(flow.lab.west, flow.syncs)
    flow.produce(5)
    return copied(flow)


def recreate_syncs(flow: Flow) -> Deed:
    """Restart the connector, which makes the topic; the next record copied makes a sync."""
    flow.lab.restart(flow.connector)
    flow.lab.wait_running(flow.connector)

    def check() -> None:
        flow.produce(1)
        try:
            result = cluster_actions.records(flow.lab.west, flow.syncs)
        except KeyError as exc:
            raise NotYet(f"no topic {flow.syncs}") from exc
        if not result:
            raise NotYet("no sync")

    until(f"a sync in {flow.syncs}", check, timeout_s=DEADLINE_S)
    return copied(flow)


def copied_again(flow: Flow) -> Deed:
    """
    The offsets of a running connector are lost, and a restart copies everything from the start.

    Tombstones stand where the offsets were, as a wiped or mended topic leaves them; the task does
    not look at them before it is started again. Where a copy takes less than a flush, the offsets
    topic shows N, a tombstone and N again, and no number that fell. What always tells are the
    offset syncs: upstream starts again at the log start while downstream goes on.

    Returns once all is copied for the second time.
    """
    before, copies = flow.deed(), flow.copies()
    newest = list(cluster_actions.offsets_of(flow.lab.east, OFFSETS_TOPIC, flow.connector))
    cluster_actions.write_tombstones(flow.lab.east, OFFSETS_TOPIC, newest)
    flow.lab.restart(flow.connector)
    expected = copies + before.log_end - before.log_start

    def check() -> None:
        if flow.copies() < expected:
            raise NotYet(f"{flow.copies()} copies, not {expected}")

    until(f"{flow.topic} copied twice", check, timeout_s=DEADLINE_S)
    return copied(flow)


def recreate_connector(flow: Flow) -> Deed:
    """
    The connector is deleted and made again under its name: it goes on where the old one ended.

    Whoever expected a fresh start gets none; Connect deletes no offsets with a connector. Both may
    happen within a second: who asks REST now and then may never find it gone. In the status topic
    the old life ends with tombstones.
    """
    before = flow.deed()
    flow.lab.delete(flow.connector)
    flow.lab.create(flow.connector, flow.config())
    flow.lab.wait_running(flow.connector)
    after = flow.deed()
    if after.position != before.position:
        raise LabError(f"position {after.position}, before {before.position}")
    return after
