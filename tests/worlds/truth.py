"""What is so in a world, tick by tick, and where a snapshot or a message says otherwise.

A value is right if it was so at some moment within the last WINDOW_S: inputs are polled, and may be
shown until they are stale. What is absent is never wrong. An end is false if what was found has
stood for all of FALSE_END_S.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from offsetwatch.judge.findings.register import LAST_SEEN
from offsetwatch.model.findings import Finding, FindingName, Scope, Verdict
from offsetwatch.model.topology import TopicPartition
from offsetwatch.notify.delivery_state import Message, NotificationStatus
from offsetwatch.state.mirror.mm2_names import find_remote_topic
from offsetwatch.state.snapshot import GroupView, Snapshot
from tests.scenarios.brokers import Log, partitions_of
from tests.scenarios.connect import Connector, Sink, Source
from tests.scenarios.mirrors import Mirror
from tests.scenarios.world import World

WINDOW_S: Final = 150.0  # the slowest input is stale after 50 s, and connectors flush every 60 s
REST_WINDOW_S: Final = (
    270.0  # offsets over REST: one poll a minute, stale after three, and the flush
)
FALSE_END_S: Final = 150.0
LINGERS_S: Final = 400.0  # a finding of failures is over once a task has run for three intervals
ROUTED_S: Final = 300.0  # how long a topic may pass for the one that copies go to
BELIEVED_S: Final = 1200.0  # how long syncs of a stranger may pass for ours
CALM_S: Final = 1800.0  # how long a connector stands still before `ok` and `idle` are false
_ELSEWHERE: Final = "other_cluster"  # a fault: the address leads to another Connect cluster
_STALLS: Final = frozenset(
    {
        FindingName.MM2_STALLED,
        FindingName.MM2_SILENT_STALL,
        FindingName.CONNECTOR_STALLED,
        FindingName.CONNECTOR_SILENT,
        FindingName.SINK_STUCK,
        FindingName.TASK_FAILED,
        FindingName.CONNECTOR_FAILED,
        FindingName.POISON_SUSPECTED,
        FindingName.RESTART_LOOP,
    }
)
_LISTED: Final = frozenset({"empty", "omits", "other_cluster", "odd_entry"})

Name = tuple[str, str]  # Connect cluster, connector
Place = tuple[str, str, str, int]  # and topic, partition
Copy = tuple[str, str, str]  # and topic


class Wrong(NamedTuple):
    """One thing that must not be: `kind` makes it the same in another run."""

    kind: str
    text: str


class Span(NamedTuple):
    """A partition at one moment: its log, and the offsets that its reader read and committed."""

    start: int
    end: int
    read: int  # the NEXT record
    committed: int


@dataclass(frozen=True)
class Moment:
    """The truth at one moment.

    copies    the topic that copies of an upstream topic go to, where there are any
    hidden    connectors that Connect shows no state of, or of a task of theirs
    start_offsets  where a group of the upstream cluster could go on in those, from the first to the
              last offset that tells the same record
    """

    at: float
    states: dict[Name, str]
    tasks: dict[Name, dict[int, str]]
    hidden: frozenset[Name]
    offsets: dict[Name, frozenset[str]]
    mirrored: dict[Place, Span]
    sunk: dict[Place, Span]
    copies: dict[Copy, str]
    start_offsets: dict[tuple[Name, str, TopicPartition], tuple[int, int]]
    faults: dict[str, str]
    strangers: bool


@dataclass
class Truth:
    """The last moments of a world.

    deleted     the connectors that were ever deleted
    moved_at    when a reader last read anything on, or had nothing to read
    blind_at    when the daemon last missed an input
    """

    world: World
    moments: deque[Moment] = field(default_factory=deque)
    deleted: set[Name] = field(default_factory=set)
    moved_at: dict[Place, float] = field(default_factory=dict)
    blind_at: float = 0.0

    def record(self) -> None:
        """Note how things are now."""
        now = self.world.now
        before = self.moments[-1] if self.moments else None
        self.moments.append(self._moment(now))
        while self.moments[0].at < now - max(WINDOW_S, FALSE_END_S, LINGERS_S, ROUTED_S):
            self.moments.popleft()
        latest = self.moments[-1]
        if before is not None:
            self.deleted |= before.states.keys() - latest.states.keys()
        for location, span in (latest.mirrored | latest.sunk).items():
            was = None
            if before is not None:
                was = before.mirrored.get(location) or before.sunk.get(location)
            idle = span.read >= span.end
            if was is None or was.read != span.read or idle:
                self.moved_at[location] = now

    def _moment(self, now: float) -> Moment:
        world = self.world
        states: dict[Name, str] = {}
        tasks: dict[Name, dict[int, str]] = {}
        offsets: dict[Name, frozenset[str]] = {}
        mirrored: dict[Place, Span] = {}
        sunk: dict[Place, Span] = {}
        copies: dict[Copy, str] = {}
        start_offsets: dict[tuple[Name, str, TopicPartition], tuple[int, int]] = {}
        hidden: set[Name] = set()
        for cluster in world.sites.values():
            for connector in cluster.connectors.values():
                name = (cluster.name, connector.name)
                keys = {connector.name} | {
                    f"{connector.name}-{n}" for n in range(len(connector.tasks))
                }
                if keys & cluster.without_status:
                    hidden.add(name)
                states[name] = connector.state.lower()
                tasks[name] = {n: task.state.lower() for n, task in enumerate(connector.tasks)}
                if isinstance(connector, Source):
                    offsets[name] = frozenset(self._offsets(connector))
                elif isinstance(connector, Mirror):
                    mirrored |= _mirrored(name, connector)
                    start_offsets.update(_start_offsets(name, connector))
                    topics = {partition.topic for partition in connector.copied}
                    copies |= {(*name, topic): connector.copy_of(topic) for topic in topics}
                elif isinstance(connector, Sink):
                    sunk |= _sunk(name, connector)
        return Moment(
            at=now,
            states=states,
            tasks=tasks,
            hidden=frozenset(hidden),
            offsets=offsets,
            mirrored=mirrored,
            sunk=sunk,
            copies=copies,
            start_offsets=start_offsets,
            faults={site.name: site.proxy.fault for site in world.sites.values()},
            strangers=any(site.connectors for site in world.strangers.values()),
        )

    @staticmethod
    def _offsets(source: Source) -> Iterator[str]:
        """Yield what its task finds, and what it wrote last: that it is to write under another key
        nothing tells before it has.
        """
        for offset in (source.offset, source.last_written):
            if offset is not None:
                yield _canonical(offset)

    # --- values ----------------------------------------------------------------------------------

    def wrong_values(self, snapshot: Snapshot) -> Iterator[Wrong]:
        """Return every value of a snapshot that was not so within the window."""
        recent = self._since(snapshot.at - WINDOW_S)
        elsewhere = any(fault.startswith(_ELSEWHERE) for fault in self.moments[-1].faults.values())
        if elsewhere or not snapshot.ready or not all(view.live for view in snapshot.inputs):
            self.blind_at = snapshot.at
        yield from self._wrong_states(snapshot, recent)
        polled = self._since(snapshot.at - REST_WINDOW_S)
        yield from self._wrong_positions(snapshot, recent, polled)
        yield from self._wrong_mirrors(snapshot, recent, polled)
        yield from self._wrong_sinks(snapshot, recent, polled)
        if snapshot.at - self.blind_at > WINDOW_S:  # configurations may have changed meanwhile
            yield from self._wrong_copies(snapshot, recent)
            yield from self._wrong_start_offsets(snapshot, recent)
        yield from self._wrong_verdicts(snapshot, recent)
        yield from self._wrong_findings(snapshot)

    def _since(self, when: float) -> list[Moment]:
        return [moment for moment in self.moments if moment.at >= when]

    def _wrong_states(self, snapshot: Snapshot, recent: list[Moment]) -> Iterator[Wrong]:
        for view in snapshot.connectors:
            name = (view.connect_cluster, view.name)
            if _changing(view.connect_cluster, recent):
                continue
            known = {moment.states[name] for moment in recent if name in moment.states}
            if view.state.lower() not in known | {"unknown", "", "unassigned"}:
                yield Wrong("state", f"{name} is {view.state}, was {sorted(known)}")
            for task in view.tasks:
                reports = {moment.tasks.get(name, {}).get(task.number) for moment in recent}
                if task.state not in reports | {"unknown", ""}:
                    yield Wrong(
                        "task state", f"{name} task {task.number} is {task.state}: {reports}"
                    )

    def _wrong_positions(
        self, snapshot: Snapshot, recent: list[Moment], polled: list[Moment]
    ) -> Iterator[Wrong]:
        for view in snapshot.source_partitions:
            name = (view.connect_cluster, view.connector)
            source = self._source(name)
            if source is None or view.offset is None or not _same(view.identity, source.partition):
                continue
            moments = polled if view.from_rest else recent
            known = {text for moment in moments for text in moment.offsets.get(name, ())}
            # Under which key a new connector writes shows once it has written; and over REST alone
            # what stands under the key of a java.util.HashMap is all that Connect shows.
            if source.last_written is None or self._is_gone(name) or view.from_rest:
                known |= self._newest_of_each_key(name)
            if _canonical(json.loads(view.offset.text)) not in known:
                text = f"{name} is at {view.offset.text}, was at {sorted(known)[-3:]}"
                yield Wrong("position", f"{text} (keys: {source.keys})")

    def _wrong_mirrors(
        self, snapshot: Snapshot, recent: list[Moment], polled: list[Moment]
    ) -> Iterator[Wrong]:
        for view in snapshot.mirror_partitions:
            location = (view.connect_cluster, view.connector, view.topic, view.partition)
            moments = polled if view.from_rest else recent
            spans = [moment.mirrored[location] for moment in moments if location in moment.mirrored]
            if not spans:
                continue
            if view.committed is not None and view.committed + 1 not in {
                span.committed for span in spans
            }:
                text = f"{location} committed {view.committed}, was {spans[-1].committed - 1}"
                yield Wrong("committed", text)
            if view.lag is None or self._foreign(location, recent):
                continue
            least = min(span.end - span.read for span in spans)
            most = max(span.end for span in spans) - min(span.committed for span in spans)
            if not least <= view.lag <= most:
                text = f"{location} lag {view.lag}, not within {least}..{most}: {spans[-1]}"
                yield Wrong("lag", f"{text}; committed {view.committed}, synced {view.synced}")

    def _foreign(self, location: Place, recent: list[Moment]) -> bool:
        """Whether what a stranger does may still pass for ours."""
        moved = self.moved_at.get(location, 0.0)
        return any(moment.strangers for moment in recent) and recent[-1].at - moved < BELIEVED_S

    def _wrong_sinks(
        self, snapshot: Snapshot, recent: list[Moment], polled: list[Moment]
    ) -> Iterator[Wrong]:
        for view in snapshot.sink_partitions:
            location = (view.connect_cluster, view.connector, view.topic, view.partition)
            moments = polled if view.from_rest else recent
            spans = [moment.sunk[location] for moment in moments if location in moment.sunk]
            if not spans:
                continue
            committed = {span.committed for span in spans}
            if view.committed is not None and view.committed not in committed:
                text = f"{location} committed {view.committed}, was {committed}"
                yield Wrong("sink committed", text)
            least = min(span.end for span in spans) - max(committed)
            most = max(span.end for span in spans) - min(committed)
            if view.lag is not None and not least <= view.lag <= most:
                yield Wrong("sink lag", f"{location} lag {view.lag}, not within {least}..{most}")

    def _wrong_copies(self, snapshot: Snapshot, recent: list[Moment]) -> Iterator[Wrong]:
        """Topics that copies do not go to, for whatever is named by them: audit, samples, groups;
        and topics whose copies share one with others, taken for alone.
        """
        there = frozenset(self.world.kafkas["east"].data)
        requests = {
            (groups.flow, partition.topic, partition.remote)
            for groups in snapshot.groups_to_ask
            for partition in groups.partitions
        }
        for flow in snapshot.topology.flows:
            name = (flow.connect_cluster, flow.connector)
            names = {location[2] for location in recent[-1].copies if location[:2] == name}
            if _changing(flow.connect_cluster, recent):
                continue
            messages = {(topic, find_remote_topic(flow, topic, there)) for topic in names}
            messages |= {(topic, remote) for key, topic, remote in requests if key == flow.key}
            for topic, remote in messages:
                copies = [moment.copies.get((*name, topic)) for moment in recent]
                if remote is not None and remote not in copies:
                    yield Wrong("copy", f"{name} copies {topic} to {remote}, was {set(copies)}")
            for topic in {topic for key, topic, _ in requests if key == flow.key}:
                if all(self._shares(moment, name, topic) for moment in recent):
                    yield Wrong("merged", f"{name} {topic} is asked for as if alone in its copy")

    @staticmethod
    def _shares(moment: Moment, name: Name, topic: str) -> bool:
        copies = {
            location[2]: copy for location, copy in moment.copies.items() if location[:2] == name
        }
        return [*copies.values()].count(copies.get(topic, "")) > 1

    def _wrong_start_offsets(self, snapshot: Snapshot, recent: list[Moment]) -> Iterator[Wrong]:
        """Places where a group could go on, which tell another record or another topic."""
        since = self._since(snapshot.at - ROUTED_S)
        for view in snapshot.groups:
            name = self._mirror_of(view)
            partition = TopicPartition(view.topic, view.partition)
            if (
                view.best is None
                or name is None
                or any(moment.strangers for moment in self.moments)
            ):
                continue
            spans = [
                moment.start_offsets[name, view.group, partition]
                for moment in since
                if (name, view.group, partition) in moment.start_offsets
            ]
            if not spans or len(spans) < len(since):
                continue
            least, most = min(first for first, _ in spans), max(last for _, last in spans)
            if not least <= view.best <= most:
                text = f"{view.group} {partition} at {view.upstream} could go on at {view.best}"
                yield Wrong("start_offset", f"{name}: {text}, not within {least}..{most}")

    def _mirror_of(self, view: GroupView) -> Name | None:
        names = {
            (view.connect_cluster, connector.name)
            for connector in self.world.sites[view.connect_cluster].connectors.values()
            if isinstance(connector, Mirror)
        }
        return names.pop() if len(names) == 1 else None

    def _wrong_verdicts(self, snapshot: Snapshot, recent: list[Moment]) -> Iterator[Wrong]:
        """Calm of a mirror that has stood before its work for long."""
        for judged in snapshot.judgements:
            if judged.scope is Scope.PARTITION or judged.verdict not in {Verdict.OK, Verdict.IDLE}:
                continue
            name = (judged.connect_cluster, judged.connector)
            locations = [item for item in recent[-1].mirrored if item[:2] == name]
            for location in locations:
                span, state = recent[-1].mirrored[location], recent[-1].states[name]
                moved_at = self.moved_at.get(location, recent[-1].at)
                unchanged_s = recent[-1].at - max(moved_at, self.blind_at)
                if unchanged_s > CALM_S and span.end - span.read > 1000 and state == "running":
                    yield Wrong(
                        "calm",
                        f"{judged.scope} {name} {judged.verdict} ({judged.reason}) for all that"
                        f" {location} has stood at {span} for {unchanged_s:.0f} s",
                    )

    def _wrong_findings(self, snapshot: Snapshot) -> Iterator[Wrong]:
        """Findings of what was never so."""
        for finding in snapshot.findings:
            if any(item.name == LAST_SEEN for item in finding.evidence):
                continue  # it says itself that its input cannot be read: it is of an earlier moment
            if _changing(finding.connect_cluster, list(self.moments)):
                continue
            name = (finding.connect_cluster, finding.connector or "")
            past = self.moments
            tasks = {state for moment in past for state in moment.tasks.get(name, {}).values()}
            match finding.name:
                case FindingName.TASK_FAILED | FindingName.CONNECTOR_FAILED if any(
                    name in moment.hidden for moment in past
                ):
                    false = False  # when it ended could not be seen
                case FindingName.TASK_FAILED:
                    false = "failed" not in tasks
                case FindingName.CONNECTOR_FAILED:
                    false = "failed" not in {moment.states.get(name) for moment in past}
                case FindingName.UNUSABLE_OFFSET | FindingName.MM2_TOPIC_RECREATED:
                    false = True
                case FindingName.REMNANT_OFFSETS:
                    false = name not in self.deleted
                case FindingName.DUPLICATE_KEYS:
                    false = not self._respelled(name)
                case _:
                    false = finding.name.value == "connect_cluster_changed" and not any(
                        moment.faults[name[0]].startswith(_ELSEWHERE) for moment in self.moments
                    )
            if false:
                text = f"{finding.name.value} of {name}: {finding.summary}"
                yield Wrong(f"false {finding.name.value}", text)

    def _records(self, name: Name) -> Iterator[tuple[bytes, bytes | None]]:
        """Key and value of what its offsets topic has of a connector, deleted ones of its name
        included.
        """
        for record in self.world.sites[name[0]].offsets_topic(name[1]).records:
            key = record.key()
            if key is not None and json.loads(key)[0] == name[1]:
                yield key, record.value()

    def _newest_of_each_key(self, name: Name) -> set[str]:
        """The offsets that a task of this name may find."""
        newest = dict(self._records(name))
        return {_canonical(json.loads(value)) for value in newest.values() if value}

    def _respelled(self, name: Name) -> bool:
        """Whether its partition was ever written under two keys."""
        return len({key for key, _ in self._records(name)}) > 1

    # --- ends ------------------------------------------------------------------------------------

    def false_ends(self, messages: Iterable[Message], snapshot: Snapshot) -> Iterator[Wrong]:
        """Return every end that was reported of what has stood all the time, and every end by the
        deletion of a connector that is there.
        """
        statuses = {
            (result.name, result.connect_cluster, result.connector) for result in snapshot.findings
        }
        for message in messages:
            finding = message.finding
            name = (finding.connect_cluster, finding.connector or "")
            if message.status is NotificationStatus.DELETED and not self._is_gone(name):
                text = f"{finding.name.value} of {finding.connector} ended by its deletion"
                yield Wrong("false deletion", text)
            if message.status is not NotificationStatus.RESOLVED:
                continue
            others = {
                item
                for item in statuses
                if item[0] in _STALLS and item[1:] == (finding.connect_cluster, finding.connector)
            }
            if finding.name in _STALLS and finding.name is not FindingName.TASK_FAILED and others:
                continue  # it is said in another way
            why = self._check_duration(finding)
            if why is not None:
                text = f"{finding.name.value} of {finding.connector}: resolved, although {why}"
                yield Wrong(f"false end of {finding.name.value}", text)

    def _is_gone(self, name: Name) -> bool:
        """Whether a connector was missing at some moment of the window."""
        return any(name not in moment.states for moment in self._since(self.world.now - WINDOW_S))

    def _check_duration(self, finding: Finding) -> str | None:
        """Return why a finding has stood for long enough; None if it has not, or nothing tells."""
        name = (finding.connect_cluster, finding.connector or "")
        since = self.world.now - FALSE_END_S
        window = [moment for moment in self.moments if moment.at >= since]
        if window[0].at > since + 60.0:
            return None
        if name[1] and any(name not in moment.states for moment in window):
            return None
        match finding.name:
            case FindingName.TASK_FAILED:
                failed = all("failed" in moment.tasks[name].values() for moment in window)
                return "its task has failed all the time" if failed else None
            case FindingName.CONNECTOR_FAILED:
                failed = all(moment.states[name] == "failed" for moment in window)
                return "it has failed all the time" if failed else None
            case FindingName.MM2_STALLED | FindingName.MM2_SILENT_STALL:
                return self._check_windows(name, dict.fromkeys(window[-1].mirrored, window))
            case FindingName.SINK_STUCK:
                return self._check_windows(name, dict.fromkeys(window[-1].sunk, window))
            case FindingName.CONNECTOR_STALLED | FindingName.CONNECTOR_SILENT:
                failed = all("failed" in moment.tasks[name].values() for moment in window)
                return "its tasks have failed all the time" if failed else None
            case _:
                return self._still_at_fault(finding, window)

    def _check_windows(self, name: Name, windows: dict[Place, list[Moment]]) -> str | None:
        for location, window in windows.items():
            if location[:2] != name or any(moment.states[name] != "running" for moment in window):
                continue
            spans = [(moment.mirrored | moment.sunk).get(location) for moment in window]
            if any(span is None for span in spans):
                continue
            # A task that is taken away commits what it had read, which is progress to see.
            reads = {(span.read, span.committed) for span in spans if span is not None}
            waits = all(span is not None and span.end - span.read > 0 for span in spans)
            if len(reads) == 1 and waits:
                return f"{location} has stood at {spans[-1]} all the time"
        return None

    def _still_at_fault(self, finding: Finding, window: list[Moment]) -> str | None:
        answer = {
            "connect_cluster_changed": "other_cluster",
            "connector_state_missing": "omits",
        }.get(finding.name.value)
        cluster = finding.connect_cluster
        if answer == "omits" and finding.connector not in self.world.sites[cluster].proxy.wrong_for:
            return None
        if answer is not None and all(
            moment.faults[cluster].startswith(answer) for moment in window
        ):
            return f"answers were {answer} all the time"
        return None

    # --- details ---------------------------------------------------------------------------------

    def _source(self, name: Name) -> Source | None:
        answer = self.world.sites.get(name[0])
        result: Connector | None = None if answer is None else answer.connectors.get(name[1])
        return result if isinstance(result, Source) else None


def _changing(connect_cluster: str, recent: list[Moment]) -> bool:
    """Whether the address has led elsewhere for less than the window: nobody can know it yet."""
    elsewhere = {moment.faults.get(connect_cluster, "").startswith(_ELSEWHERE) for moment in recent}
    return elsewhere == {True, False}


def _mirrored(name: Name, mirror: Mirror) -> dict[Place, Span]:
    span: dict[Place, Span] = {}
    for partition in partitions_of(mirror.upstream, mirror.topics):
        log = mirror.upstream.log(partition)
        assert isinstance(log, Log)
        committed = mirror.committed.get(partition, log.start - 1) + 1
        done = mirror.done.get(partition, committed - 1) + 1
        # What is stopped goes on from what is committed, whatever it had read.
        read = done if mirror.state == "RUNNING" else committed
        span[*name, partition.topic, partition.partition] = Span(
            log.start, log.end, read, committed
        )
    return span


def _start_offsets(
    name: Name, mirror: Mirror
) -> Iterator[tuple[tuple[Name, str, TopicPartition], tuple[int, int]]]:
    """Where the records that groups read next were copied to, in the topic of now: each time that
    they were, or that later ones were. What was not copied follows the end of that topic.
    """
    for group, offsets in mirror.upstream.groups.items():
        for partition, offset in offsets.items():
            if partition.topic not in mirror.topics:
                continue
            topic, end = mirror.copy_of(partition.topic), mirror.remote(partition).end
            runs = [run for run in mirror.copied.get(partition, []) if run.topic == topic]
            results = [
                run.downstream + max(0, offset - run.upstream)
                for run in runs
                if offset <= run.upstream + run.records
            ]
            if not results or mirror.committed.get(partition, -1) < offset:
                results.append(end)  # it is copied once more
            yield (name, group, partition), (min(results), max(results))


def _sunk(name: Name, sink: Sink) -> dict[Place, Span]:
    span: dict[Place, Span] = {}
    for partition in partitions_of(sink.site.east, sink.topics):
        log = sink.site.east.log(partition)
        assert isinstance(log, Log)
        committed = sink.group.get(partition, log.start)
        read = sink.at.get(partition, committed)
        span[*name, partition.topic, partition.partition] = Span(
            log.start, log.end, read, committed
        )
    return span


def _canonical(of: object) -> str:
    return json.dumps(of, sort_keys=True)


def _same(identity: str, partition: dict[str, object]) -> bool:
    try:
        document = json.loads(identity)
    except ValueError:
        return False
    return bool(document == partition)
