"""
MM2 that does not get on: a record it cannot write, and a topic it may no longer read.

In the first case the task is FAILED and everybody can see it; in the second it is RUNNING, each of
its polls fails, and MirrorSourceTask.poll() makes a WARN line and an empty batch of that.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lab.errors import LabError
from lab.stories import cluster_actions
from lab.stories.flow import DEADLINE_S, Deed, Flow, copied, failed, failed_again, logged
from lab.waiting import NotYet, until

# Of the topic upstream, so that it takes what MM2's producer will not send.
LARGE_TOPIC = {"max.message.bytes": str(2 * cluster_actions.LARGE_BYTES)}
REFUSED_POLLS_MIN = 3


@dataclass(frozen=True, slots=True)
class Poisoned:
    """The offset of the record that no start gets past, and how often the task has failed at it."""

    deed: Deed
    offset: int
    failures: int
    trace: str


def too_large(
    flow: Flow, *, restarts: int = 3, observed: Callable[[], object] = lambda: None
) -> Poisoned:
    """
    A record larger than MM2's producer sends; the topic must have been made with LARGE_TOPIC.
    `observed` is called when the task has failed once.

    Each start of the task ends at the same offset: RecordTooLargeException in the send callback.
    That comes at once, and the task lives on for five seconds, RUNNING, committing nothing, until
    it next looks; then it is FAILED with "Unrecoverable exception from producer send callback" on
    top and the cause below. In the status topic each restart is RESTARTING, RUNNING, FAILED.
    """
    poison = flow.bounds()[1]
    cluster_actions.produce_large(flow.lab.west, flow.topic)
    flow.produce(5)
    failed(flow)
    observed()
    failures = failed_again(flow.lab, flow.connector, restarts=restarts)
    trace = failed(flow)
    if "RecordTooLargeException" not in trace:
        raise LabError(f"failed for another reason: {trace[:500]}")
    action = flow.deed()
    if action.position != poison - 1:
        raise LabError(f"position {action.position}, the poison is at {poison}")
    return Poisoned(deed=action, offset=poison, failures=failures, trace=trace)


def allow_large(flow: Flow) -> Deed:
    """Let the producer send it; a changed configuration restarts the task by itself.

    The topic on east takes it already: MM2 copies max.message.bytes with the topic's other
    settings.
    """
    limit = str(2 * cluster_actions.LARGE_BYTES)
    more = {"producer.override.max.request.size": limit, "producer.override.buffer.memory": limit}
    flow.lab.create(flow.connector, {**flow.config(), **more})
    return copied(flow)


def reading_denied(flow: Flow, *, records: int = 20) -> Deed:
    """
    Upstream nobody may read the topic any more, and records arrive. Needs LabOptions.authorizer.

    Returns when the worker's log tells of refused polls, all states still say RUNNING, and nothing
    was copied. MM2 polls again at once, hundreds of times a second, each time with a stack trace:
    a core of the worker and its log are all that moves.
    """
    cluster_actions.deny_reading(flow.lab.west, flow.topic)
    # A fetch that was waiting when the ACL came is still answered.
    await_refused_polls(flow)
    before, copies = _committed(flow)
    flow.produce(records)
    await_refused_polls(flow)
    after = flow.deed()
    if set(flow.states()) != {"RUNNING"} or flow.copies() != copies:
        raise LabError(f"{flow.states()}, {flow.copies() - copies} copied meanwhile")
    if after.position != before.position:
        raise LabError(f"the position went from {before.position} to {after.position}")
    return after


def _committed(flow: Flow) -> tuple[Deed, int]:
    """Wait until all that was copied is committed: how the world stands, and how much that is."""

    def check() -> tuple[Deed, int]:
        now, copies = flow.deed(), flow.copies()
        if now.position != copies - 1:
            raise NotYet(f"position {now.position}, {copies} copied")
        return now, copies

    return until(f"{flow.topic} committed", check, timeout_s=DEADLINE_S)


def await_refused_polls(flow: Flow) -> None:
    """Wait until a worker's log tells of more of them than now."""
    known = _refused_polls(flow)

    def check() -> None:
        count = _refused_polls(flow) - known
        if count < REFUSED_POLLS_MIN:
            raise NotYet(f"{count} since")

    until(f"refused polls of {flow.topic}", check, timeout_s=DEADLINE_S)


def reading_allowed(flow: Flow) -> Deed:
    """Take the denial back; the running task goes on by itself."""
    cluster_actions.allow_reading(flow.lab.west, flow.topic)
    return copied(flow)


def _refused_polls(flow: Flow) -> int:
    answer = f"TopicAuthorizationException: Not authorized to access topics: [{flow.topic}]"
    return logged(flow.lab, answer)
