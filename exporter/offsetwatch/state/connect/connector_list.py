"""The connectors of a Connect cluster, by answers of its REST API, none of which is the truth.

An answer may come from another Connect cluster (an address that was moved), from a worker whose
status topic has holes, or from one whose config topic was made anew. So a connector that an answer
has not is missing, and not gone: it is shown with what is known of it, from the third answer on
without a state, until other witnesses agree. Those are the list of names, the status topic, and
what it commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from offsetwatch.model.connect.connectors import DELETED, UNKNOWN_STATE, Connector, ConnectorKind
from offsetwatch.model.observations import ConnectorsListed
from offsetwatch.state.snapshot import ConnectorListView, ConnectorWithoutState, UnlistedConnector

MISSED_ANSWERS: Final = 3
# A task that is stopped commits once more, and a worker takes statuses back within seconds: what
# speaks for a connector has to do so a flush later.
GRACE_INTERVALS: Final = 1.0
DELETION_INTERVALS: Final = 3.0  # who runs has committed by then, two flushes after the grace
# Whoever comes back so often within so long was never gone: two lists take turns.
ALTERNATION_RETURNS: Final = 3
ALTERNATION_INTERVALS: Final = 3.0
RECENT_INTERVALS: Final = 10.0  # who has not committed for so long is no witness any more
CONFIGURATION_INTERVALS: Final = 10.0  # what was told of it that long ago may be another by now
DELETED_MAX: Final = 10_000
UNLISTED_CONNECTORS_MAX: Final = 1_000  # connectors that commit and were never listed


class ConnectorEvidence(Protocol):
    """What else tells of connectors, listed or not."""

    def status_of(self, connector: str) -> str | None:
        """The newest state in the status topic, DELETED among them; None if that tells nothing."""
        ...

    def may_have_status(self, connector: str) -> bool:
        """The status topic may have it, in a partition that cannot be read."""
        ...

    def committed_at(self, connector: str) -> float | None:
        """The timestamp of the newest commit that came while we looked."""
        ...

    def committing(self) -> Iterable[str]:
        """All that committed while we looked."""
        ...


@dataclass(slots=True)
class _Absence:
    """A connector that is not listed.

    since      the first answer without it
    answers    how many there were in a row
    commit     its newest commit as of the last answer; `moved_at` is when that was last another
               than before, by our clock: the timestamp is by somebody else's
    unnamed    the list of names has it neither
    """

    since: float
    commit: float | None
    answers: int = 0
    moved_at: float | None = None
    unnamed: bool = False

    def see(self, commit: float | None, now: float) -> None:
        """One more answer without it."""
        self.answers += 1
        self.since = min(self.since, now)  # the clock may be set back
        if commit != self.commit:
            self.commit, self.moved_at = commit, now


@dataclass(slots=True)
class _KnownConnector:
    """A connector with the state that it was last listed with, at `seen_at` (None: never).

    first_at          when it was listed first
    stateless         how many answers in a row had no state of it, listed or not
    stateless_since   the first of them
    configured_at     the newest answer that had its configuration
    unseen            the newest answer had no state of it, listed or not
    returned_at       when an answer had one again, the last few times
    """

    connector: Connector
    first_at: float
    configured_at: float = 0.0
    seen_at: float | None = None
    stateless: int = 0
    stateless_since: float = 0.0
    absence: _Absence | None = None
    unseen: bool = False
    returned_at: tuple[float, ...] = ()

    def list(self, entry: Connector, now: float, configuration_s: float) -> None:
        """It is in an answer, with a state or without. Without its configuration, that of an answer
        `configuration_s` ago at most goes on.
        """
        self.absence = None
        if self.unseen and entry.state != UNKNOWN_STATE:
            self.returned_at = (*self.returned_at[1 - ALTERNATION_RETURNS :], now)
            self.unseen = False
        if entry.configured:
            self.configured_at = now
        settings = entry if entry.configured else self.connector
        if settings.configured and not 0 <= now - self.configured_at <= configuration_s:
            settings = _drop_configuration(settings, entry.kind)
        if entry.state == UNKNOWN_STATE:
            self._miss_state(now)
            self._become(settings, self.connector)
        elif tasks_without_state(entry):
            self._count_miss(now)
            self._become(settings, self._with_states_of_before(entry))
        else:
            self.seen_at, self.stateless = now, 0
            self._become(settings, entry)

    def alternates(self, now: float, within_s: float) -> bool:
        """Return whether answers had it, and had it not, over and over within this time."""
        times = self.returned_at
        return len(times) == ALTERNATION_RETURNS and all(
            0 <= now - moment <= within_s for moment in times
        )

    def miss(self, commit: float | None, now: float, *, unnamed: bool) -> None:
        """It is not in an answer."""
        if self.absence is None:
            self.absence = _Absence(now, commit)
        self.absence.unnamed = unnamed
        self.absence.see(commit, now)
        self._miss_state(now)

    def _count_miss(self, now: float) -> None:
        if not self.stateless:
            self.stateless_since = now
        self.stateless += 1

    def _with_states_of_before(self, entry: Connector) -> Connector:
        """For two answers a task that lacks a state has the one it had."""
        if self.stateless >= MISSED_ANSWERS:
            return entry
        before = {task.number: task for task in self.connector.tasks}
        return replace(
            entry,
            tasks=tuple(
                before.get(task.number, task) if task.state == UNKNOWN_STATE else task
                for task in entry.tasks
            ),
        )

    def _miss_state(self, now: float) -> None:
        self._count_miss(now)
        self.unseen = True
        if self.stateless >= MISSED_ANSWERS and self.connector.state != UNKNOWN_STATE:
            self._become(self.connector, _build_unknown_connector(self.connector.name))

    def _become(self, settings: Connector, states: Connector) -> None:
        """The same object while it is the same connector: much is made of it."""
        made = Connector(
            name=settings.name,
            kind=settings.kind,
            class_name=settings.class_name,
            version=states.version or settings.version,
            state=states.state,
            tasks=states.tasks,
            mirror=settings.mirror,
            sink=settings.sink,
            dedicated_offsets_topic=settings.dedicated_offsets_topic,
            offsets_addresses=settings.offsets_addresses,
            failure=states.failure,
            translates=settings.translates,
            filename=settings.filename,
            configured=settings.configured,
        )
        if made != self.connector:
            self.connector = made


@dataclass(slots=True)
class ConnectorList:
    """See the module.

    interval_s    within which a connector that works commits
    view          what is to be known of the list itself; None before the first answer
    """

    connect_cluster: str
    interval_s: float
    view: ConnectorListView | None = None
    _known: dict[str, _KnownConnector] = field(default_factory=dict)
    _strangers: dict[str, _Absence] = field(default_factory=dict)
    _ids: tuple[str | None, str | None] = (None, None)  # its Kafka cluster's, and another's
    _since: float | None = None
    _shown: tuple[Connector, ...] = ()
    _deleted_at: dict[str, float] = field(default_factory=dict)

    def read(
        self, answer: ConnectorsListed, witnesses: ConnectorEvidence, now: float
    ) -> tuple[Connector, ...]:
        """Take in an answer. Returns the connectors that there are, by name; the same tuple while
        all of them are the same.
        """
        self._identify(answer.kafka_cluster_id)
        foreign = self._ids[1] is not None
        listed = {} if foreign else _collect_entries(answer)
        for name, entry in listed.items():
            self._strangers.pop(name, None)
            known = self._known.get(name)
            if known is None:
                known = self._known[name] = _KnownConnector(entry, first_at=now)
            known.list(entry, now, CONFIGURATION_INTERVALS * self.interval_s)
        for name in self._known.keys() - listed.keys():
            unnamed = answer.names is not None and answer.names_whole and not foreign
            self._known[name].miss(witnesses.committed_at(name), now, unnamed=unnamed)
        self._meet_strangers(witnesses, now)
        unlisted = tuple(self._unlisted(witnesses, now))
        lost = foreign or self._lost(unlisted)
        if not lost:
            self._drop_gone(
                witnesses, now, held={unlisted_connector.since for unlisted_connector in unlisted}
            )
        self._show(unlisted, now, lost=lost)
        shown = tuple(known.connector for _, known in sorted(self._known.items()))
        if len(shown) != len(self._shown) or any(
            new is not old for new, old in zip(shown, self._shown, strict=True)
        ):
            self._shown = shown
        return self._shown

    @property
    def kafka_cluster_id(self) -> str | None:
        """Of its Kafka cluster, by the first answer that had one; None before."""
        return self._ids[0]

    def recall(self, kafka_cluster_id: str | None) -> None:
        """Go on with the id that was known before a restart; before the first answer."""
        self._ids = (kafka_cluster_id, None)

    def _identify(self, kafka_cluster_id: str | None) -> None:
        """The first id is the cluster's own. An answer without one changes nothing."""
        if kafka_cluster_id is not None:
            ours = self._ids[0] or kafka_cluster_id
            self._ids = (ours, None if kafka_cluster_id == ours else kafka_cluster_id)

    def _meet_strangers(self, witnesses: ConnectorEvidence, now: float) -> None:
        for name in witnesses.committing():
            if name in self._known:
                continue
            commit = witnesses.committed_at(name)
            absence = self._strangers.get(name)
            if absence is None:
                if len(self._strangers) >= UNLISTED_CONNECTORS_MAX:
                    continue
                absence = self._strangers[name] = _Absence(now, commit)
            absence.see(commit, now)

    def _unlisted(self, witnesses: ConnectorEvidence, now: float) -> Iterable[UnlistedConnector]:
        """Those that are not listed, and another witness speaks for them."""
        for name, absence in sorted(self._absent().items()):
            if absence.answers < MISSED_ANSWERS or now - absence.since < self._grace_s:
                continue
            known = self._known.get(name)
            status = None if known is None else witnesses.status_of(name)
            alive = None if status == DELETED else status
            works = self._works(absence, now)
            if works or alive is not None:
                yield UnlistedConnector(
                    connector=name,
                    since=absence.since,
                    seen_at=None if known is None else known.seen_at,
                    status=alive,
                    committed_at=absence.commit if works else None,
                )

    def _absent(self) -> dict[str, _Absence]:
        absent = {
            name: known_connector.absence
            for name, known_connector in self._known.items()
            if known_connector.absence is not None
        }
        return self._strangers | absent

    def _works(self, absence: _Absence, now: float) -> bool:
        moved_at = absence.moved_at
        return (
            moved_at is not None
            and moved_at - absence.since >= self._grace_s
            and now - moved_at <= RECENT_INTERVALS * self.interval_s
        )

    def _lost(self, unlisted: tuple[UnlistedConnector, ...]) -> bool:
        """Does the address lead to another Connect cluster of the same Kafka cluster? Connectors
        are at work that it does not list, and it lists none that was there before they went: those
        that came with the answer are the other cluster's.
        """
        if not unlisted:
            return False
        listed = [known.first_at for known in self._known.values() if known.absence is None]
        went = [
            unlisted_connector.since
            for unlisted_connector in unlisted
            if unlisted_connector.connector in self._known
        ]
        return not listed or (bool(went) and min(listed) >= min(went))

    def _drop_gone(self, witnesses: ConnectorEvidence, now: float, held: set[float]) -> None:
        """Forget whoever is deleted: no list has it, and its status was taken back; or it is silent
        for long, and so are all that went in the same answer, which is one cause.
        """
        for name, known in tuple(self._known.items()):
            absence = known.absence
            if absence is None:
                continue
            status = witnesses.status_of(name)
            silent = (
                status in {None, DELETED}
                and not witnesses.may_have_status(name)
                and absence.since not in held
                and absence.answers >= MISSED_ANSWERS
                and now - absence.since >= DELETION_INTERVALS * self.interval_s
            )
            if silent or (status == DELETED and absence.unnamed):
                del self._known[name]
                self._deleted_at.pop(name, None)
                self._deleted_at[name] = now
        while len(self._deleted_at) > DELETED_MAX:
            del self._deleted_at[next(iter(self._deleted_at))]

    def _show(self, unlisted: tuple[UnlistedConnector, ...], now: float, *, lost: bool) -> None:
        if lost or self._since is None or now < self._since:
            self._since = now
        self.view = ConnectorListView(
            connect_cluster=self.connect_cluster,
            believed_at=None if lost else self._since + DELETION_INTERVALS * self.interval_s,
            kafka_cluster_ids=self._ids,
            without_state=tuple(
                ConnectorWithoutState(name, known.stateless_since, known.seen_at, missing)
                for name, known in sorted(self._known.items())
                if known.absence is None
                and ((missing := tasks_without_state(known.connector)) or _has_unknown_state(known))
            ),
            without_configuration={
                name: known.configured_at
                for name, known in sorted(self._known.items())
                if known.absence is None and known.configured_at and not known.connector.configured
            },
            unlisted=unlisted,
            deleted=frozenset(self._deleted_at.keys() - self._known.keys()),
            deleted_at=dict(self._deleted_at),
            alternating=tuple(
                name
                for name, known in sorted(self._known.items())
                if known.alternates(now, ALTERNATION_INTERVALS * self.interval_s)
            ),
        )

    @property
    def _grace_s(self) -> float:
        return GRACE_INTERVALS * self.interval_s


def tasks_without_state(connector: Connector) -> tuple[int, ...]:
    """Return the numbers of the tasks that are there and of which no state is known."""
    return tuple(task.number for task in connector.tasks if task.state == UNKNOWN_STATE)


def _has_unknown_state(known: _KnownConnector) -> bool:
    return known.connector.state == UNKNOWN_STATE


def _collect_entries(answer: ConnectorsListed) -> Mapping[str, Connector]:
    """What an answer lists by name, those that only the list of names has among them."""
    names = dict.fromkeys(answer.names or ())
    listed = {connector.name: connector for connector in answer.connectors}
    return {name: _build_unknown_connector(name) for name in names} | listed


def _drop_configuration(connector: Connector, kind: ConnectorKind) -> Connector:
    """Forget a configuration, but for where its offsets are: the commits there tell that. `kind` is
    what its status says, to which a MirrorMaker is a source like others.
    """
    is_mirror = connector.kind is ConnectorKind.MIRROR and kind is ConnectorKind.SOURCE
    return replace(
        _build_unknown_connector(connector.name),
        kind=connector.kind if is_mirror else kind,
        dedicated_offsets_topic=connector.dedicated_offsets_topic,
        offsets_addresses=connector.offsets_addresses,
    )


def _build_unknown_connector(name: str) -> Connector:
    return Connector(
        name=name,
        kind=ConnectorKind.UNKNOWN,
        class_name="",
        version="",
        state=UNKNOWN_STATE,
        tasks=(),
        configured=False,
    )
