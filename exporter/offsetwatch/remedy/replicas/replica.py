"""Replica: follows the journal's topic into its own copy, stands for election, and leads.

A consumer group elects the leader. Safety comes from something else: the broker accepts records of
the journal from the newest producer alone. So the elected replica creates a producer, which fences
the previous one; reads to the end of the topic; writes into the journal that it leads; and only
then acts. Nothing is done that was not written first. So a former leader that was suspended, or cut
off, learns of it at the latest when it writes about its next step.

One thread follows, stands for election and takes over; writers use a LeadershipTerm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from offsetwatch.clients.kafka.journal_topic import (
    JournalReader,
    JournalTopicRequirements,
    LeaderElection,
    find_unmet_requirements,
    read_journal_topic,
)
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError, NotLeader, OffsetwatchError, TargetUnreachable
from offsetwatch.remedy.drivers.journal_topic import JournalWriter, open_writer
from offsetwatch.remedy.journal.journal import ChainLine, Journal
from offsetwatch.remedy.model.journal_records import LeadershipTaken
from offsetwatch.remedy.replicas.topic_copy import (
    WAIT_S,
    JournalTopicCopy,
    JournalTopicFollower,
    encode_line,
)

THREAD_NAME: Final = "journal-replica"
RETRY_S: Final = 5.0  # after an error: meanwhile another replica may be elected
NOTIFY_S: Final = 5.0
UNFIT_TOPIC_RETRY_S: Final = 30.0  # after a topic that is not fit
CREATE_HINT: Final = "`offsetwatch journal create --config F` makes it"
# A request that was put off so long after its intent was written is not made: whoever leads by
# then waits for longer until it takes it for not made (Limits.doubt_s, with what Connect may take).
STALE_S: Final = 30.0

_log = structlog.get_logger()


class ReplicaSettings(NamedTuple):
    """Settings of a replica: where the journal is, and the replica's name.

    kafka, properties   its cluster, as the configuration names it, and the properties of clients
    name                of this replica, as others see it
    session_s           without a heartbeat for so long, another replica is elected
    """

    kafka: str
    properties: Mapping[str, Any]
    requirements: JournalTopicRequirements
    name: str
    session_s: float


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """Status of a replica, for metrics and answers.

    leading     it leads
    leader      the last to record that it leads, and when (Unix seconds, by its clock); None if
                none ever has
    seq         the newest record of the journal that it has
    problem     why it neither follows nor leads; empty if it does
    """

    leading: bool = False
    leader: tuple[str, float] | None = None
    seq: int = 0
    problem: str = ""


class LeadershipTerm:
    """Term of leadership of a replica. Any thread may use it.

    It ends for good at the first error, or when another replica is elected; nothing is written
    after that.
    """

    def __init__(self, writer: JournalWriter, head: str) -> None:
        self._writer = writer
        self._head = head
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._written_at = 0.0

    @property
    def over(self) -> bool:
        """Check whether the term is known to be over."""
        return self._over.is_set()

    def end(self) -> None:
        """End the term: nothing more is written in it."""
        self._over.set()

    def publish(self, lines: Sequence[ChainLine]) -> None:
        """Write lines to the topic, together or not at all (journal.LinePublisher).

        If the result is unknown, the next leader finds out, which may be this very replica. Raises
        NotLeader.
        """
        with self._lock:
            if self.over:
                raise NotLeader("this replica does not lead any more: nothing was done")
            if lines[0].prev_sha256 != self._head:
                self.end()
                raise NotLeader("the copy of the journal here is behind the topic: nothing is done")
            begun_at = time.monotonic()
            try:
                self._writer.write([encode_line(line) for line in lines])
            except ClientError as exc:
                self.end()
                raise NotLeader(f"it is not known to be in the journal: {exc}") from exc
            except BaseException:
                self.end()
                raise
            self._head = lines[-1].sha256
            self._written_at = begun_at

    def check(self, stale_s: float = STALE_S) -> None:
        """Raise TargetUnreachable if the term is over or last wrote more than `stale_s` ago.

        To be called right before a request is made; the error means that nothing has happened. It
        uses a clock that goes on while the process is suspended.
        """
        idle_s = time.monotonic() - self._written_at
        if self.over or idle_s > stale_s:
            raise TargetUnreachable(
                "journal", f"it was last written to {idle_s:.1f} s ago: not asked"
            )


class Replica:
    """Replica of the journal, with its own thread.

    on_status   receives the status after each change and at least every NOTIFY_S (5 s), as the
                receiver may have changed
    """

    def __init__(
        self,
        settings: ReplicaSettings,
        folder: Path,
        clock: UnixClock,
        on_status: Callable[[ReplicaStatus], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._on_status = on_status
        self._stop = threading.Event()
        self._term: LeadershipTerm | None = None
        self._status = ReplicaStatus()
        self._reported_at = 0.0
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    def start(self) -> None:
        """Start to follow the topic and to stand for election."""
        self._thread.start()

    def stop(self) -> None:
        """Stop leading, and let another replica be elected at once."""
        self._stop.set()
        self._resign("stopping")
        self._thread.join()

    @property
    def term(self) -> LeadershipTerm | None:
        """Return the current term; None if this replica does not lead. Any thread may call it."""
        term = self._term
        return None if term is None or term.over else term

    @property
    def status(self) -> ReplicaStatus:
        """Return the replica's status. Any thread may call it."""
        return self._status

    def publish(self, lines: Sequence[ChainLine]) -> None:
        """Write lines to the topic in the current term (journal.LinePublisher).

        For decisions of operators; a plan is carried out within one term only.
        """
        term = self.term
        if term is None:
            raise NotLeader(self.describe_leader())
        term.publish(lines)

    def describe_leader(self) -> str:
        """Return the refusal for a change that is requested of a replica that does not lead."""
        leader = self._status.leader
        if leader is None:
            return "this replica does not lead, and none has led yet: nothing was done"
        return f"this replica does not lead: {leader[0]} was the last to say that it does"

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        """Follow and lead until stopped. A bug ends the term, but not the daemon."""
        while not self._stop.is_set():
            wait_s = RETRY_S
            try:
                wait_s = self._follow_and_lead()
            except OffsetwatchError as exc:
                self._report(problem=str(exc))
                _log.error("journal_unavailable", error=str(exc))
            except Exception as exc:  # noqa: BLE001 - see the docstring
                self._report(problem=f"unexpected {type(exc).__name__}: see the log")
                _log.exception("unexpected_error", name=THREAD_NAME)
            finally:
                self._resign("the journal cannot be followed")
            self._stop.wait(wait_s)

    def _follow_and_lead(self) -> float:
        """Follow and lead until that ends or fails. Return the seconds before the next try."""
        settings = self._settings
        topic = settings.requirements.topic
        topic_settings = read_journal_topic(settings.kafka, settings.properties, topic)
        if topic_settings is None:
            return self._refuse([f"{settings.kafka} has no topic {topic}: {CREATE_HINT}"])
        weak = list(find_unmet_requirements(topic_settings, settings.requirements))
        if weak:
            return self._refuse([f"topic {settings.kafka}/{topic}: {said}" for said in weak])
        with (
            closing(JournalTopicCopy(self._folder, topic, topic_settings.topic_id)) as copy,
            closing(
                JournalReader(settings.kafka, settings.properties, topic, copy.progress.position)
            ) as reader,
        ):
            self._follow(JournalTopicFollower(copy, reader))
        return RETRY_S

    def _refuse(self, problems: list[str]) -> float:
        self._report(problem="; ".join(problems))
        _log.error("journal_refused", problems=problems)
        return UNFIT_TOPIC_RETRY_S

    def _follow(self, follower: JournalTopicFollower) -> None:
        settings = self._settings
        election: LeaderElection | None = None
        try:
            while not self._stop.is_set():
                follower.read(WAIT_S)
                self._update_status(follower)
                if election is None:
                    if not follower.caught_up:  # a leader that has yet to read is none
                        continue
                    election = LeaderElection(
                        settings.kafka,
                        settings.properties,
                        settings.requirements.topic,
                        session_s=settings.session_s,
                    )
                chosen = election.chosen(0 if follower.busy else WAIT_S)
                if self._stop.is_set():
                    return
                if chosen and self.term is None:
                    self._take_over(follower, election)
                elif not chosen:
                    self._resign("another one was chosen")
        finally:
            self._resign("it follows no longer")
            if election is not None:
                election.leave()

    def _take_over(self, follower: JournalTopicFollower, election: LeaderElection) -> None:
        """Fence the previous leader, read the journal to its end, record the leadership.

        Only then does the term begin. Raises OffsetwatchError: then another replica may try.
        """
        settings = self._settings
        began = time.monotonic()
        writer = open_writer(settings.kafka, settings.properties, settings.requirements.topic)
        follower.read_to_end(settings.kafka, settings.properties, self._stop.is_set)
        term = LeadershipTerm(writer, follower.copy.head[1])
        with closing(Journal(self._folder, term.publish)) as journal:
            journal.control(LeadershipTaken(at=self._clock.now(), name=settings.name))
        if self._stop.is_set() or not election.chosen(0):
            return
        self._term = term
        self._update_status(follower)
        _log.info(
            "leadership_taken",
            name=settings.name,
            seq=self._status.seq,
            after_s=round(time.monotonic() - began, 3),
        )

    def _resign(self, why: str) -> None:
        term, self._term = self._term, None
        if term is None:
            return
        lost = term.over
        term.end()
        _log.warning("leadership_lost", why="it could not write" if lost else why)
        self._report(leading=False)

    def _update_status(self, follower: JournalTopicFollower) -> None:
        if self._term is not None and self._term.over:
            self._resign("it could not write")
        self._report(
            leading=self._term is not None,
            leader=follower.leader,
            seq=follower.copy.head[0],
            problem=follower.problem,
        )

    def _report(self, **changed: Any) -> None:
        before = self._status
        self._status = status = replace(before, **changed)
        now = time.monotonic()
        if status != before or now - self._reported_at >= NOTIFY_S:
            self._reported_at = now
            self._on_status(status)
