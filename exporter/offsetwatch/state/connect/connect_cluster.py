"""State of one Connect cluster: its connectors, and the offsets topics that they use.

A source connector keeps its offsets in its own topic if it names one (`offsets.storage.topic`),
else in the cluster's. Connect then reads the connector's topic ALONE: it lists what only the
cluster's topic holds with a null offset (ConnectorOffsetBackingStore; the fallback that its
documentation promises is in no release). We do the same, and report that such an entry exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import msgspec

from offsetwatch.model.connectors import Connector, ConnectorKind, StateHistory, Task, TaskStatus
from offsetwatch.model.observations import (
    CONNECT_REST,
    OPEN_TRANSACTION,
    TAIL,
    ConnectorsListed,
    InputId,
    OffsetsPolled,
    TailRead,
    build_rest_offsets_input,
)
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import (
    KafkaTopic,
    ListingTopics,
    OffsetsTopic,
    StatusTopic,
    TopicPartition,
    is_provided,
)
from offsetwatch.state.connect.connector_list import (
    COPY_NAMES_INTERVALS,
    SILENCE_INTERVALS,
    ConnectorList,
    drop_configuration,
    drop_copy_names,
    has_restarted,
)
from offsetwatch.state.connect.raw_keys import FieldOrder, KnownSpellings
from offsetwatch.state.connect.rest_offsets import RestOffsets
from offsetwatch.state.connect.source_offsets import SourceBook, accept_all, build_superseded_views
from offsetwatch.state.connect.state_consistency import StateConsistencyChecks
from offsetwatch.state.connect.state_history import (
    ConnectorStateHistories,
    TaskStarts,
    find_task_starts,
    has_lost_status,
)
from offsetwatch.state.connect.topic_listing import Listing
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.memo import Memo, TupleMemo
from offsetwatch.state.mirror.flows import find_cluster_at
from offsetwatch.state.mirror.lag import MirrorPosition
from offsetwatch.state.snapshot import (
    ConnectorListView,
    RestConnector,
    SourcePartitionView,
    StateDifference,
)

# Of a topic that lists connectors: there is none, or it is not for us, as it holds secrets. What it
# tells can be done without.
UNREADABLE_REASONS: Final = frozenset({"not_found", "denied"})

ConnectorsByTopic = tuple[tuple[KafkaTopic, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class ConnectClusterSettings:
    """Settings of a configured Connect cluster.

    kafka               the Kafka cluster that holds its topics; None: it cannot be read
    rest                its REST API is polled; otherwise only its topics are read
    wants_connector, wants_topic    what the configuration includes
    by_topic            replicated partitions are exported as sums, one series per topic
    status              its status topic, if it has a REST API and the configuration names one
    """

    name: str
    kafka: str | None
    rest: bool = True
    wants_connector: Callable[[str], bool] = accept_all
    wants_topic: Callable[[str], bool] = accept_all
    by_topic: bool = False
    status: KafkaTopic | None = None


class PersistedConnectCluster(msgspec.Struct, frozen=True):
    """State of a Connect cluster that must survive a restart.

    kafka               the addresses of its Kafka cluster in the configuration at that time
    kafka_cluster_id    the id that its workers reported, if any
    spellings           raw keys by offsets topic, connector and source partition
    orders              orders of fields in raw keys, by offsets topic and connector
    status_topic, state_doubts    connectors whose states in that status topic differ from those by
                                  REST
    offsets_topic                 the name of its offsets topic
    offsets_topic_found_at        Unix seconds when that topic was found last
    """

    kafka: tuple[str, ...] = ()
    kafka_cluster_id: str | None = None
    spellings: dict[str, dict[str, dict[str, KnownSpellings]]] = {}
    orders: dict[str, dict[str, tuple[FieldOrder, ...]]] = {}
    status_topic: str | None = None
    state_doubts: dict[str, StateDifference] = {}
    offsets_topic: str | None = None
    offsets_topic_found_at: float = 0.0


class ConnectClusterState:
    """State of one Connect cluster, and the views built from it.

    `partitions_max` limits the source partitions of each offsets topic. `interval_s` is the time
    within which a connector commits what it copied.
    """

    def __init__(
        self,
        of: ConnectClusterSettings,
        inputs: Inputs,
        partitions_max: int,
        interval_s: float = 60.0,
    ) -> None:
        self.of = of
        self.name = of.name
        self._list = ConnectorList(of.name, interval_s)
        self.home: KafkaTopic | None = None
        self._last_home: tuple[str | None, float] = (None, 0.0)  # name, found at; over a restart
        self.listed: tuple[Connector, ...] | None = None
        self.by_name: Mapping[str, Connector] = {}  # the same; another object for another list
        self.runs: frozenset[str] = frozenset()  # their names, with those that no poll requested
        self._inputs = inputs
        self._partitions_max = partitions_max
        self._enlisted: tuple[Connector, ...] | None = None
        self._dedicated: dict[str, KafkaTopic | None] = {}
        self._used: frozenset[KafkaTopic] = frozenset()
        self._late: set[KafkaTopic] = set()
        self._cut: Counter[str] = Counter()
        self._books: dict[KafkaTopic, SourceBook] = {}
        self._known_spellings: dict[str, dict[str, dict[str, KnownSpellings]]] = {}
        self._known_orders: dict[str, dict[str, tuple[FieldOrder, ...]]] = {}
        self._joined: TupleMemo[SourcePartitionView] = TupleMemo()
        self._homes: Memo[ConnectorsByTopic] = Memo()
        self._names_with_offset: frozenset[str] = frozenset()
        self._polled: frozenset[str] = frozenset()
        self._superseded: dict[str, Memo[tuple[SourcePartitionView, ...]]] = {}
        self._rest = RestOffsets(of.name, partitions_max, of.wants_topic)
        self.unread: frozenset[KafkaTopic] = frozenset()
        """The offsets topics for which REST is polled instead."""
        self.homeless = False
        """REST is polled because the cluster's own offsets topic is unknown."""
        self._by_rest: frozenset[str] = frozenset()
        self._layout: Memo[object] = Memo()
        self.layout: object = None
        """The same for two results of `views` that differ only in how far they have come."""
        self.listing_topics: ListingTopics | None = None
        self._listing = Listing()
        self._has_list = False
        self._interval_s = interval_s
        self._configured_at = 0.0  # when the tail of the config topic was last live
        self._starts: dict[str, TaskStarts] = {}  # of tasks, by then
        self._outdated = False
        self._status_topic = of.status
        self._histories = ConnectorStateHistories(of.name)
        self._monitored_histories: Memo[tuple[StateHistory, ...]] = Memo()
        self._task_starts: Memo[Mapping[str, TaskStarts]] = Memo()
        self._state_checks = StateConsistencyChecks()
        self._checkpoint_tasks: tuple[tuple[str, tuple[Task, ...]], ...] = ()

    # --- taking in -------------------------------------------------------------------------------

    def read_list(
        self, answer: ConnectorsListed, now: float, elsewhere: frozenset[str] = frozenset()
    ) -> None:
        """Apply a response of the REST API. `elsewhere` has the connectors of other clusters."""
        connectors = self._list.read(answer, _TopicEvidence(self, now, elsewhere), now)
        view = self._list.view
        if view is not None and view.believed_at is not None:  # or it is another cluster's answer
            status = self._status()
            if status is not None:
                self._state_checks.follow(str(status))
            ended = self._state_checks.read(answer.connectors, self.all_histories(now), now)
            if ended:
                self._histories.cut(ended)
        self.enlist(connectors)

    def identify_home(self, kafka_cluster_id: str) -> None:
        """Set the id that its Kafka cluster reports itself."""
        self._list.home_id = kafka_cluster_id

    def enlist(self, connectors: tuple[Connector, ...]) -> None:
        """Replace the cluster's connectors; any that is not among them is gone."""
        if connectors is self._enlisted:
            return  # what was made of them stays the same objects
        self._enlisted = connectors
        self.listed = tuple(
            connector for connector in connectors if self.of.wants_connector(connector.name)
        )
        self.by_name = {connector.name: connector for connector in self.listed}
        self.runs = frozenset(connector.name for connector in connectors)

    def expire(self, now: float) -> bool:
        """Drop configurations that are too old to be used, those of unlisted connectors included.

        Return True if that changed the connectors. Nothing else ages them while REST, or the config
        topic, reports nothing.
        """
        before = self._enlisted
        if self.listed is None:
            return False  # a list that was never read is not empty
        if self.of.rest:
            self.enlist(self._list.expire(now, lambda name: self.starts_of(name, now)))
        elif self._has_list:
            self._expire_listing(now)
        return self._enlisted is not before

    def _expire_listing(self, now: float) -> None:
        configs = None if self.listing_topics is None else self.listing_topics.configs
        connectors = self._enlisted or ()
        names = [connector.name for connector in connectors if connector.mirror is not None]
        if configs is not None and self._inputs.live(InputId.of_tail(configs), now):
            self._configured_at = now
            self._starts = {name: self.starts_of(name, now) for name in names}
        silent_s = abs(now - self._configured_at)
        outdated = silent_s > SILENCE_INTERVALS * self._interval_s
        restarted = {
            name
            for name in names
            if silent_s > COPY_NAMES_INTERVALS * self._interval_s
            and has_restarted(self._starts.get(name, frozenset()), self.starts_of(name, now))
        }
        if outdated and any(connector.configured for connector in connectors):
            self.enlist(
                tuple(drop_configuration(connector, connector.kind) for connector in connectors)
            )
        elif restarted:
            without = tuple(
                drop_copy_names(connector) if connector.name in restarted else connector
                for connector in connectors
            )
            self.enlist(connectors if without == connectors else without)
        elif self._outdated and not outdated:
            self.enlist(self._listing.connectors())
        self._outdated = outdated or bool(restarted)

    def settle(self, addresses: Mapping[str, frozenset[str]]) -> None:
        """Determine the offsets topic of each connector."""
        self._dedicated = {}
        for connector in self.listed or ():
            topic = connector.dedicated_offsets_topic
            if topic is not None:
                away = connector.offsets_addresses
                kafka = find_cluster_at(away, addresses) if away else self.of.kafka
                # On a cluster or in a topic that we do not know, its offsets are not known either.
                self._dedicated[connector.name] = (
                    None if kafka is None or is_provided(topic) else KafkaTopic(kafka, topic)
                )
        used = {self.home, *self._dedicated.values()}
        self._used = frozenset(topic for topic in used if topic is not None)
        self._open_books()
        classes = {name: at.class_name for name, at in self.by_name.items()}
        self._rest.classify(classes)
        for book in self._books.values():
            book.classify(classes)
        for name in self._superseded.keys() - self._dedicated.keys():
            del self._superseded[name]

    def retire(self, tail: InputId) -> None:
        """Drop the offsets of a tail that has ended.

        If its topic is read again, it is from the start.

        Until the tail ends its book is retained, even if no connector uses it. A connector that is
        unlisted for a moment would otherwise get an empty book, while its tail reads nothing twice.
        """
        for topic in [topic for topic in self._books if InputId.of_tail(topic) == tail]:
            book = self._books.pop(topic)
            self._cut.update(book.dropped)
            if known := book.remembered():
                self._known_spellings[str(topic)] = known
            if orders := book.remembered_orders():
                self._known_orders[str(topic)] = orders
        self._open_books()

    def _open_books(self) -> None:
        for topic in self._used - self._books.keys():
            self._books[topic] = SourceBook(
                self.of.name,
                self._partitions_max,
                self.of.wants_topic,
                self._known_spellings.pop(str(topic), None),
                self._known_orders.pop(str(topic), None),
            )
            state = self._inputs.find(InputId.of_tail(topic))
            if state is not None and state.tail is not None and state.tail.caught_up:
                self._late.add(topic)  # what another site's tail has read, we have not

    def apply(self, read: TailRead, now: float) -> bool:
        """Apply what a tail read. Return True if the connectors were listed from it."""
        book = self._books.get(read.topic)
        frozen = frozenset(partition.partition for partition in read.frozen)
        if book is not None:
            book.apply(read.source_records(), now, whole=read.whole)
            if read.whole:
                self._late.discard(read.topic)
            book.freeze(frozen)
        if read.topic == self._status():
            records = read.listing_records()
            self._histories.apply(records, now, whole=read.whole)
            self._histories.hide(frozen)
            checkpoints = {name for name, _ in self._checkpoint_tasks}
            if any(
                isinstance(record.says, TaskStatus) and record.says.connector in checkpoints
                for record in records
            ):
                self._checkpoint_tasks = ()  # whatever became of it, a poll may have missed it
        return self._apply_listing(read)

    def polled(self, polled: OffsetsPolled) -> None:
        """Apply a connector's offsets polled over REST, unless a topic provides them by now."""
        if polled.connector in self._by_rest:
            book = self._book_of(polled.connector)
            self._rest.read(polled, counted=book is None or not book.version)

    def choose_stores(self, now: float) -> None:
        """Use REST for each offsets topic that cannot be read, until it was read to its end."""
        if not self.of.rest:
            return
        failing = self._fails(InputId(TAIL, connect_cluster=self.name))
        was_replaced = self.homeless or bool(self.unread)
        self.unread = frozenset(topic for topic in self._used if self._is_unread(topic, now))
        self.homeless = self.home is None and (self.of.kafka is None or failing or was_replaced)
        names: frozenset[str] = frozenset()
        if self.unread or self.homeless or None in self._dedicated.values():
            names = frozenset(
                connector.name
                for connector in self.listed or ()
                if connector.kind is not ConnectorKind.SINK
                and (
                    (topic := self.topic_of(connector.name)) in self.unread
                    or (topic is None and (self.homeless or connector.name in self._dedicated))
                )
            )
        self._by_rest = self._by_rest if names == self._by_rest else names
        self._rest.keep(self._by_rest)

    def _is_unread(self, topic: KafkaTopic, now: float) -> bool:
        if self.sound(topic, now):
            return False
        was_replaced = topic in self.unread or (topic == self.home and self.homeless)
        tail = InputId.of_tail(topic)
        return was_replaced or (self._fails(tail) and not self._inputs.live(tail, now))

    def _fails(self, tail: InputId) -> bool:
        state = self._inputs.find(tail)
        return state is not None and state.last_reason not in {None, OPEN_TRANSACTION}

    def prepare(self) -> None:
        """Build views ahead of the next call of `views`."""
        for book in self._books.values():
            book.prepare()

    def find_status_topic(self, beside: frozenset[KafkaTopic]) -> bool:
        """Find the cluster's own status topic among these, by its name. Return True if it changed.

        If several names match, the topic cannot be determined: there is none.
        """
        if not self.of.rest or self.of.status is not None:
            return False
        names = () if self.home is None else guess_sibling_names(self.home.topic)
        mine = [topic for topic in beside if topic.topic in names and topic.kafka == self.of.kafka]
        status_topic = mine[0] if len(mine) == 1 else None
        if status_topic == self._status_topic:
            return False
        self._histories.forget()
        self._status_topic = status_topic
        return True

    def _apply_listing(self, read: TailRead) -> bool:
        topics = self.listing_topics
        if topics is None or read.topic not in topics.topics():
            return False
        if read.whole and read.topic == topics.configs:
            self._listing.forget_configs()
            self._has_list = True
        if read.whole and read.topic == topics.status:
            self._listing.forget_status()
        records = read.listing_records()
        self._listing.apply(record.says for record in records)
        listed = self._has_list and bool(records or read.whole)
        if listed:
            self.enlist(self._listing.connectors())
        return listed

    # --- giving out ------------------------------------------------------------------------------

    def topics(self) -> tuple[OffsetsTopic, ...]:
        """Return every topic in which the cluster keeps source offsets."""
        topics = [] if self.home is None else [OffsetsTopic(self.name, self.home)]
        topics += [
            OffsetsTopic(self.name, topic, connector)
            for connector, topic in sorted(self._dedicated.items())
            if topic is not None and topic != self.home
        ]
        return tuple(topics)

    def status_topics(self) -> tuple[StatusTopic, ...]:
        """Return the status topic if states are polled: it has the changes that polls miss."""
        if not self.of.rest or self._status_topic is None:
            return ()
        return (StatusTopic(self.name, self._status_topic),)

    def histories(self, now: float) -> tuple[StateHistory, ...]:
        """Return the state histories of included connectors and tasks.

        The same tuple while nothing changes; empty unless their status topic is read to its end.
        Without connectors whose states by REST contradict it.
        """
        histories, is_monitored = self.all_histories(now), self.of.wants_connector
        doubts = self._state_checks.doubts
        return self._monitored_histories.get(
            *(histories, doubts),
            make=lambda: tuple(
                history
                for history in histories
                if is_monitored(history.connector) and history.connector not in doubts
            ),
        )

    def state_doubts(self) -> dict[str, StateDifference]:
        """Return the included connectors whose states by REST and in the status topic differ."""
        return {
            name: doubt for name, doubt in self._state_checks.doubts.items() if name in self.by_name
        }

    def all_histories(self, now: float) -> tuple[StateHistory, ...]:
        """Return the state histories, including connectors that the configuration leaves out."""
        topic = self._status()
        if topic is None or not self._inputs.live(InputId.of_tail(topic), now):
            return ()
        return self._histories.views()

    def starts_of(self, connector: str, now: float) -> TaskStarts:
        """Return the newest starts of a connector's tasks, as far as the status topic has them."""
        histories = self.all_histories(now)
        starts = self._task_starts.get(histories, make=lambda: find_task_starts(histories))
        return starts.get(connector, frozenset())

    def may_have_history(self, connector: str, now: float) -> bool:
        """Return whether the status topic may have a history in a partition that cannot be read."""
        topic = self._status()
        live = topic is not None and self._inputs.live(InputId.of_tail(topic), now)
        return live and self._histories.may_hide(connector)

    def elsewhere(self) -> tuple[tuple[str, str], ...]:
        """Return the connectors with offsets in a topic, or on a Kafka cluster, that is unknown."""
        unknown = sorted(name for name, topic in self._dedicated.items() if topic is None)
        return tuple((self.name, name) for name in unknown)

    def topic_of(self, connector: str) -> KafkaTopic | None:
        """Return the offsets topic that Connect uses for a connector; None if it is not known."""
        return self._dedicated.get(connector, self.home)

    def known(self) -> bool:
        """Return whether it is known which connectors exist, so that deleted ones can be left out.

        Offsets of a deleted connector stay in the topic. So if a list is possible and not there
        yet, nothing can be shown. An old list is enough: the set of connectors is no measurement
        that goes stale within a minute. Where the config topic cannot be read, the keys have to do.
        """
        if self.listed is not None:
            return True
        configs = None if self.listing_topics is None else self.listing_topics.configs
        if self.of.rest or configs is None:
            return not self.of.rest
        state = self._inputs.find(InputId.of_tail(configs))
        return state is not None and state.last_reason in UNREADABLE_REASONS

    def is_exported(self, connector: str, now: float) -> bool:
        """Return whether a connector's offsets can be shown: it exists and they are live."""
        if connector in self._by_rest:
            return self._is_polled(connector, now)
        return not self.gone(connector) and self.sound(self.topic_of(connector), now)

    def gone(self, connector: str) -> bool:
        """Return whether there is a list of connectors, without this one."""
        return self.listed is not None and connector not in self.by_name

    def listing_live(self, now: float) -> bool:
        """Return whether the states of the connectors can be shown."""
        if self.of.rest:
            return self._inputs.live(InputId(CONNECT_REST, connect_cluster=self.name), now)
        topics = () if self.listing_topics is None else self.listing_topics.topics()
        return len(topics) == 2 and all(
            self._inputs.whole(InputId.of_tail(topic), now) for topic in topics
        )

    def sound(self, topic: KafkaTopic | None, now: float) -> bool:
        """Return whether a topic is read to its end, with deleted connectors recognised."""
        if topic is None or topic in self._late or not self.known():
            return False
        return self._inputs.live(InputId.of_tail(topic), now)

    def rest_connectors(self) -> tuple[RestConnector, ...]:
        """Return the source connectors whose offsets are polled over REST, in order."""
        return tuple(
            RestConnector(self.name, name, missing=self._rest.missing(name))
            for name in sorted(self._by_rest)
        )

    def polls(self, connector: str) -> bool:
        """Return whether the offsets of this source connector are polled over REST."""
        return connector in self._by_rest

    def list_view(self) -> ConnectorListView | None:
        """Return how far the list of connectors can be believed; None if it was never polled."""
        view, is_monitored = self._list.view, self.of.wants_connector
        if view is None:
            return None
        return replace(
            view,
            without_state=tuple(
                connector for connector in view.without_state if is_monitored(connector.connector)
            ),
            unlisted=tuple(
                connector for connector in view.unlisted if is_monitored(connector.connector)
            ),
            alternating=tuple(name for name in view.alternating if is_monitored(name)),
            without_configuration={
                name: moment
                for name, moment in view.without_configuration.items()
                if is_monitored(name)
            },
        )

    def committed_at(self, connector: str) -> float | None:
        """Return the timestamp of a connector's newest live commit; it need not be listed."""
        book = self._book_of(connector)
        return None if book is None else book.committed_at(connector)

    def committing(self, topic: KafkaTopic, *, since: float) -> frozenset[str]:
        """Return the connectors, listed or not, with commits in this topic read since then."""
        return self._books[topic].committing(since) if topic in self._books else frozenset()

    def checkpoint_tasks_changed(self) -> bool:
        """Return whether any task of MM2's checkpoint connectors changed since the last call."""
        now = tuple(
            (connector.name, connector.tasks)
            for connector in self.listed or ()
            if connector.kind is ConnectorKind.MIRROR and "MirrorCheckpoint" in connector.class_name
        )
        before, self._checkpoint_tasks = self._checkpoint_tasks, now
        return now != before

    def has_sources(self) -> bool:
        """Return whether the cluster has, or may have, a connector that needs its offsets topic."""
        if self.listed is None:
            return not self.of.rest
        needs = {ConnectorKind.SOURCE, ConnectorKind.MIRROR}
        return any(
            connector.kind in needs and connector.name not in self._dedicated
            for connector in self.listed
        )

    def names(self) -> Collection[str]:
        """Return the connectors to show; without a list, all that have an offset."""
        if self.listed is not None:
            return self.by_name
        names = frozenset(
            name
            for book in self._books.values()
            for name in book.connectors()
            if self.of.wants_connector(name)
        )
        if names != self._names_with_offset:
            self._names_with_offset = names
        return self._names_with_offset

    def views(self, now: float) -> tuple[SourcePartitionView, ...]:
        """Return the views of all source partitions whose inputs are live."""
        listed, dedicated, home = self.names(), self._dedicated, self.home
        books = [
            (self._books[topic], names)
            for topic, names in self._homes.get(
                *(listed, dedicated, home),
                make=lambda: group_by_offsets_topic(listed, dedicated, home),
            )
            if self.sound(topic, now)
        ]
        parts = [book.views(names) for book, names in books]
        superseded = [
            views for name in sorted(self._dedicated) if (views := self._superseded_of(name, now))
        ]
        layouts = [*chain.from_iterable((book.layout, names) for book, names in books), *superseded]
        if self._by_rest:
            polled = frozenset(name for name in self._by_rest if self._is_polled(name, now))
            self._polled = self._polled if polled == self._polled else polled
            layouts += (self._rest.layout, self._polled)
            parts.append(self._rest.views(self._polled))
        self.layout = self._layout.get(*layouts, make=object)
        return self._joined.of((*parts, *superseded))

    def state_of(self, connector: str) -> tuple[SourceBook | RestOffsets | None, int]:
        """Return a value that changes whenever the known offsets of this connector change."""
        book = self._store_of(connector)
        return (book, 0 if book is None else book.version)

    def mirrored(self, connector: str, source: str) -> dict[MirrorPartition, MirrorPosition]:
        """Return the committed offsets of a MirrorSourceConnector under this source alias."""
        book = self._store_of(connector)
        return {} if book is None else book.mirrored(connector, source)

    def claimed(self, connector: str, source: str) -> frozenset[TopicPartition]:
        """Return the upstream partitions that the connector has an offset for, shown or not."""
        book = self._store_of(connector)
        partitions = () if book is None else book.claimed(connector, source)
        return frozenset(partition.upstream for partition in partitions)

    def uncommitted(self, connector: str, source: str, partition: TopicPartition) -> bool:
        """Return whether the connector certainly has no offset for this upstream partition."""
        book = self._store_of(connector)
        return book is not None and book.uncommitted(connector, MirrorPartition(source, *partition))

    def has_unknown_positions(self, connector: str, source: str) -> bool:
        """Return whether the connector may have positions that are not known."""
        book = self._store_of(connector)
        return book is None or book.has_unknown_positions(connector, source)

    def assigned(self, connector: str) -> frozenset[TopicPartition] | None:
        """Return the partitions of a MirrorSourceConnector by the cluster's topics, or None."""
        return self._listing.assigned(connector)

    def dropped(self) -> dict[str, int]:
        """Return the number of entries that limits dropped, by reason."""
        dropped = self._cut.copy()
        for book in self._books.values():
            dropped.update(book.dropped)
        dropped.update(self._rest.dropped)
        if self._histories.dropped:
            dropped["histories_max"] += self._histories.dropped
        if self._listing.dropped:
            dropped["listing"] += self._listing.dropped
        return dict(dropped)

    # --- over a restart --------------------------------------------------------------------------

    def set_offsets_topic(self, topic: KafkaTopic | None, now: float) -> None:
        """Set the topic that the workers store offsets in; None if it was lost."""
        self.home = topic
        self._last_home = (None, 0.0) if topic is None else (topic.topic, now)

    def remembered(self, kafka: Collection[str]) -> PersistedConnectCluster | None:
        """Return the state to persist, if any; `kafka`: the addresses of its Kafka cluster."""
        spellings, orders = dict(self._known_spellings), dict(self._known_orders)
        for topic, book in self._books.items():
            if known := book.remembered():
                spellings[str(topic)] = known
            if known_orders := book.remembered_orders():
                orders[str(topic)] = known_orders
        kafka_cluster_id = self._list.kafka_cluster_id
        # Without the moment of the newest difference: it is another one with each answer.
        doubts = {
            name: replace(doubt, at=doubt.since)
            for name, doubt in self._state_checks.doubts.items()
        }
        parts = (kafka_cluster_id, self._last_home[0], spellings, orders, doubts)
        if not any(parts):
            return None
        return PersistedConnectCluster(
            tuple(sorted(kafka)),
            kafka_cluster_id,
            spellings,
            orders,
            self._state_checks.topic if doubts else None,
            doubts,
            *self._last_home,
        )

    def recall(self, memory: PersistedConnectCluster, kafka: Collection[str]) -> None:
        """Restore saved state, before the first response.

        If the configuration now has other addresses of its Kafka cluster, the saved cluster id is
        dropped: the workers may use another cluster.
        """
        self._known_spellings = dict(memory.spellings)
        self._known_orders = dict(memory.orders)
        self._state_checks.topic = memory.status_topic
        self._state_checks.doubts = dict(memory.state_doubts)
        if memory.kafka == tuple(sorted(kafka)):
            self._list.recall(memory.kafka_cluster_id)
            self._last_home = (memory.offsets_topic, memory.offsets_topic_found_at)

    # --- for the truth check ---------------------------------------------------------------------

    def watch(self, connector: str) -> None:
        """Record every offset of this connector from now on, until `unwatch`."""
        book = self._book_of(connector)
        if book is not None:
            book.watch(connector)

    def unwatch(self, connector: str) -> None:
        """Stop recording the offsets of this connector."""
        for book in self._books.values():
            book.unwatch(connector)

    def agrees(self, connector: str, identity: str, text: str | None) -> bool:
        """Return whether the topic has this offset, or had it at any moment since `watch`."""
        book = self._book_of(connector)
        if book is None or connector in self._by_rest:
            return True
        return book.agrees(connector, identity, text)

    def offset_text(self, connector: str, identity: str) -> str | None:
        """Return the offset of a source partition in the topic; None: none, or no partition."""
        book = self._book_of(connector)
        return None if book is None else book.offset_text(connector, identity)

    def held(self, connector: str) -> tuple[str, ...]:
        """Return the identities of this connector's source partitions that REST must list."""
        book = self._book_of(connector)
        return () if book is None or connector in self._by_rest else book.held(connector)

    # --- details ---------------------------------------------------------------------------------

    def _status(self) -> KafkaTopic | None:
        listed = None if self.listing_topics is None else self.listing_topics.status
        return listed or self._status_topic

    def _book_of(self, connector: str) -> SourceBook | None:
        topic = self.topic_of(connector)
        return None if topic is None else self._books.get(topic)

    def _store_of(self, connector: str) -> SourceBook | RestOffsets | None:
        return self._rest if connector in self._by_rest else self._book_of(connector)

    def _is_polled(self, connector: str, now: float) -> bool:
        rest = build_rest_offsets_input(self.name, connector)
        return self.listing_live(now) and self._inputs.live(rest, now)

    def _superseded_of(self, connector: str, now: float) -> tuple[SourcePartitionView, ...]:
        """Return a connector's offsets in the cluster's topic that its own topic supersedes."""
        topic = self.topic_of(connector)
        if topic is None or self.home is None or self.home == topic:
            return ()
        if not (self.sound(topic, now) and self.sound(self.home, now)):
            return ()
        if not self._inputs.whole(InputId.of_tail(topic), now):
            return ()  # its offset may be there, behind an open transaction
        own, home = self._books[topic], self._books[self.home]
        memo = self._superseded.setdefault(connector, Memo())
        return memo.get(
            *(own, own.version, home, home.version),
            make=lambda: build_superseded_views(own.views_of(connector), home.views_of(connector)),
        )


def group_by_offsets_topic(
    connectors: Iterable[str],
    dedicated: Mapping[str, KafkaTopic | None],
    home: KafkaTopic | None,
) -> ConnectorsByTopic:
    """Return connectors by offsets topic, sorted by topic; those without one are left out.

    A connector uses its `dedicated` topic if it has one, otherwise `home`.
    """
    by_topic: dict[KafkaTopic, set[str]] = {}
    for name in connectors:
        topic = dedicated.get(name, home)
        if topic is not None:
            by_topic.setdefault(topic, set()).add(name)
    return tuple((topic, frozenset(names)) for topic, names in sorted(by_topic.items()))


def guess_sibling_names(offsets_topic: str) -> tuple[str, ...]:
    """Return likely names of the config and status topics that belong to an offsets topic.

    No API provides them. A topic of such a name counts only once its keys confirm it (role_of_key).
    """
    for word in ("offsets", "offset"):
        before, separator, after = offsets_topic.rpartition(word)
        if separator:
            names = ("configs", "config", "statuses", "status")
            return tuple(f"{before}{name}{after}" for name in names)
    return ()


class _TopicEvidence:
    """Evidence of a Connect cluster's connectors in its topics, at one moment."""

    def __init__(self, cluster: ConnectClusterState, now: float, elsewhere: frozenset[str]) -> None:
        self._cluster = cluster
        self._now = now
        self._elsewhere = elsewhere
        changes = {
            history.connector: history.changes
            for history in cluster.all_histories(now)
            if history.task is None
        }
        self._lost = {name for name, known in changes.items() if has_lost_status(known, now)}
        self._states = {
            name: known[-1].state for name, known in changes.items() if name not in self._lost
        }

    def status_of(self, connector: str) -> str | None:
        return self._states.get(connector)

    def may_have_status(self, connector: str) -> bool:
        return connector in self._lost or self._cluster.may_have_history(connector, self._now)

    def committed_at(self, connector: str) -> float | None:
        return self._cluster.committed_at(connector)

    def starts_of(self, connector: str) -> TaskStarts:
        return self._cluster.starts_of(connector, self._now)

    def committing(self) -> frozenset[str]:
        home = self._cluster.home
        committed = frozenset() if home is None else self._cluster.committing(home, since=0.0)
        return committed - self._elsewhere
