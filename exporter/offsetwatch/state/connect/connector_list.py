"""List of a Connect cluster's connectors, built from REST responses, none of which is reliable.

A response may come from another Connect cluster (an address that was moved), from a worker whose
status topic has holes, or from one whose config topic was recreated. So a connector that a response
lacks is missing, and not deleted. It is shown with its last known state, and from the third
response on without a state, until other evidence agrees. That is the list of names, the status
topic, and its commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from offsetwatch.decode.dialects import find_own_dialect
from offsetwatch.model.connectors import DELETED, UNKNOWN_STATE, Connector, ConnectorKind
from offsetwatch.model.observations import ConnectorsListed
from offsetwatch.model.topology import UNKNOWN_ROUTER
from offsetwatch.state.connect.state_history import TaskStarts
from offsetwatch.state.observed_time import ObservedTime
from offsetwatch.state.snapshot import ConnectorListView, ConnectorWithoutState, UnlistedConnector

MISSED_ANSWERS: Final = 3
# Copies of a changed configuration go to other topics within seconds, and their offsets look the
# same. The list of names, and configurations that it lacks, are requested once a minute.
COPY_NAMES_INTERVALS: Final = 2.0
# A task that is stopped commits once more, and a worker takes statuses back within seconds: what
# speaks for a connector has to do so a flush later.
GRACE_INTERVALS: Final = 1.0
DELETION_INTERVALS: Final = 3.0  # who runs has committed by then, two flushes after the grace
# Whoever comes back so often within so long was never gone: two lists take turns.
ALTERNATION_RETURNS: Final = 3
ALTERNATION_INTERVALS: Final = 3.0
RECENT_INTERVALS: Final = 10.0  # who has not committed for so long is no witness any more
CONFIGURATION_INTERVALS: Final = 10.0  # what was told of it that long ago may be another by now
# Without any response. Workers that are away for an upgrade do not change a configuration.
SILENCE_INTERVALS: Final = 60.0
DELETED_MAX: Final = 10_000
UNLISTED_CONNECTORS_MAX: Final = 1_000  # connectors that commit and were never listed


class ConnectorEvidence(Protocol):
    """Evidence of connectors, listed or not, besides the REST responses."""

    def status_of(self, connector: str) -> str | None:
        """Return the newest state in the status topic, or DELETED after a deletion.

        None if there is none, or if its status is gone without a deletion.
        """
        ...

    def may_have_status(self, connector: str) -> bool:
        """Return whether it may have a state that is lost, or in a partition that is not read."""
        ...

    def committed_at(self, connector: str) -> float | None:
        """Return the timestamp of the newest commit that was read live."""
        ...

    def committing(self) -> Iterable[str]:
        """Return all connectors with a commit that was read live."""
        ...

    def starts_of(self, connector: str) -> TaskStarts:
        """Return the newest starts of its tasks in the status topic."""
        ...


@dataclass(slots=True)
class _Absence:
    """Absence of a connector from the responses.

    since      the first response without it
    answers    number of such responses in a row
    commit     its newest commit as of the last response; `moved_at` is when that last changed,
               by our clock: the timestamp is by another machine's
    unnamed    the list of names does not have it either
    """

    since: float
    commit: float | None
    answers: int = 0
    moved_at: float | None = None
    unnamed: bool = False

    def leave_out(self, seconds: float) -> None:
        """Have seconds that nobody observed count for no absence."""
        self.since += seconds
        if self.moved_at is not None:
            self.moved_at += seconds

    def see(self, commit: float | None, now: float) -> None:
        """Apply one more response without the connector."""
        self.answers += 1
        self.since = min(self.since, now)  # the clock may be set back
        if commit != self.commit:
            self.commit, self.moved_at = commit, now


@dataclass(slots=True)
class _KnownConnector:
    """Known connector with the state that it was last listed with, at `seen_at` (None: never).

    first_at          when it was listed first
    stateless         number of responses in a row without a state of it, listed or not
    stateless_since   the first of them
    configured_at     the newest response with its configuration
    starts            the newest starts of its tasks by then, as far as the status topic has them
    unseen            the newest response had no state of it, listed or not
    returned_at       when a response had one again, the last few times
    """

    connector: Connector
    first_at: float
    configured_at: float = 0.0
    starts: TaskStarts = frozenset()
    seen_at: float | None = None
    stateless: int = 0
    stateless_since: float = 0.0
    absence: _Absence | None = None
    unseen: bool = False
    returned_at: tuple[float, ...] = ()

    def list(self, entry: Connector, starts: TaskStarts, now: float, interval_s: float) -> None:
        """Apply a response that lists the connector, with a state or without.

        If it lacks the configuration, the last one is used for up to CONFIGURATION_INTERVALS.
        """
        self.absence = None
        if self.unseen and entry.state != UNKNOWN_STATE:
            self.returned_at = (*self.returned_at[1 - ALTERNATION_RETURNS :], now)
            self.unseen = False
        if entry.configured:
            self.configured_at, self.starts = now, starts
        settings = entry if entry.configured else self._drop_copy_names(now, interval_s)
        if settings.configured and not self._is_configured_within(
            CONFIGURATION_INTERVALS * interval_s, now
        ):
            settings = drop_configuration(settings, entry.kind)
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
        """Return whether responses repeatedly had the connector and lacked it within this time."""
        times = self.returned_at
        return len(times) == ALTERNATION_RETURNS and all(
            0 <= now - moment <= within_s for moment in times
        )

    def _is_configured_within(self, duration_s: float, now: float) -> bool:
        return 0 <= now - self.configured_at <= duration_s

    def _drop_copy_names(self, now: float, interval_s: float) -> Connector:
        """Return the connector without the names of its copies if they are too old."""
        mirror = self.connector.mirror
        if mirror is None or self._is_configured_within(COPY_NAMES_INTERVALS * interval_s, now):
            return self.connector
        return drop_copy_names(self.connector)

    def expire_copy_names(self, starts: TaskStarts, now: float, interval_s: float) -> None:
        """Drop the names of copies if they are too old and tasks have been started since."""
        if has_restarted(self.starts, starts):
            self._become(self._drop_copy_names(now, interval_s), self.connector)

    def miss(self, commit: float | None, now: float, interval_s: float, *, unnamed: bool) -> None:
        """Apply a response that lacks the connector."""
        if self.absence is None:
            self.absence = _Absence(now, commit)
        self.absence.unnamed = unnamed
        self.absence.see(commit, now)
        self._become(self._drop_copy_names(now, interval_s), self.connector)
        self.expire(CONFIGURATION_INTERVALS * interval_s, now)
        self._miss_state(now)

    def expire(self, duration_s: float, now: float) -> None:
        """Drop a configuration that was read longer ago. A clock that was set back is no age."""
        if self.connector.configured and abs(now - self.configured_at) > duration_s:
            settings = drop_configuration(self.connector, self.connector.kind)
            self._become(settings, self.connector)

    def _count_miss(self, now: float) -> None:
        if not self.stateless:
            self.stateless_since = now
        self.stateless += 1

    def _with_states_of_before(self, entry: Connector) -> Connector:
        """Return an entry in which tasks without a state have their last one, for two responses."""
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
        """Replace the connector if it has changed: caches rely on the same object."""
        connector = replace(
            settings,
            version=states.version or settings.version,
            state=states.state,
            tasks=states.tasks,
            failure=states.failure,
        )
        if connector != self.connector:
            self.connector = connector


@dataclass(slots=True)
class ConnectorList:
    """List of a Connect cluster's connectors.

    interval_s    time within which a connector that works commits
    view          how far the list can be believed; None before the first response
    home_id       the id that the configured Kafka cluster reports itself, if any. A proxy before
                  brokers may give its clients another one, so the first response counts until one
                  has this id
    """

    connect_cluster: str
    interval_s: float
    view: ConnectorListView | None = None
    home_id: str | None = None
    _known: dict[str, _KnownConnector] = field(default_factory=dict)
    _absences: dict[str, _Absence] = field(default_factory=dict)
    # By name and class: the newest commit when the kind was first reported as unknown.
    _commits_of_unknown: dict[tuple[str, str], float | None] = field(default_factory=dict)
    _ids: tuple[str | None, str | None] = (None, None)  # its Kafka cluster's, and another's
    _since: float | None = None
    _answered_at: float = 0.0
    _listed: tuple[Connector, ...] = ()
    _deleted_at: dict[str, float] = field(default_factory=dict)
    _time: ObservedTime = field(default_factory=ObservedTime)

    def read(
        self, answer: ConnectorsListed, witnesses: ConnectorEvidence, now: float
    ) -> tuple[Connector, ...]:
        """Apply a response. Return the existing connectors by name; the same tuple if unchanged."""
        self._leave_out(self._time.pass_over(now))
        if answer.kafka_cluster_id is not None:
            own_id = self._ids[0] or answer.kafka_cluster_id
            if answer.kafka_cluster_id == self.home_id:
                own_id = self.home_id  # and what came first was another cluster's
            self._ids = (
                own_id,
                None if answer.kafka_cluster_id == own_id else answer.kafka_cluster_id,
            )
        self._answered_at = now
        foreign = self._ids[1] is not None
        listed = {} if foreign else self._add_kinds(_collect_entries(answer), witnesses)
        for name, entry in listed.items():
            self._absences.pop(name, None)
            known = self._known.get(name)
            if known is None:
                known = self._known[name] = _KnownConnector(entry, first_at=now)
            known.list(entry, witnesses.starts_of(name), now, self.interval_s)
        for name in self._known.keys() - listed.keys():
            unnamed = answer.names is not None and answer.names_whole and not foreign
            commit = witnesses.committed_at(name)
            self._known[name].miss(commit, now, self.interval_s, unnamed=unnamed)
        self._note_unlisted(witnesses, now)
        unlisted = tuple(self._unlisted(witnesses, now))
        lost = foreign or self._lost(unlisted)
        if not lost:
            self._drop_gone(witnesses, now, held_since={connector.since for connector in unlisted})
        self._show(unlisted, now, lost=lost)
        return self._list_known()

    def _leave_out(self, seconds: float) -> None:
        if not seconds:
            return
        for absence in (
            *self._absences.values(),
            *(known.absence for known in self._known.values()),
        ):
            if absence is not None:
                absence.leave_out(seconds)
        if self._since is not None:
            self._since += seconds

    def _add_kinds(
        self, listed: Mapping[str, Connector], witnesses: ConnectorEvidence
    ) -> Mapping[str, Connector]:
        """Return entries of unknown kind with the kind that their class is known to have.

        A worker without the plugin of a class reports its connectors as `unknown`
        (AbstractHerder.connectorType). The kind of a class does not change: another entry has it. A
        class of a known dialect is a source, and so is what commits to an offsets topic from then
        on.
        """
        unknown = [
            entry
            for entry in listed.values()
            if entry.kind is ConnectorKind.UNKNOWN and entry.class_name
        ]
        keys = {(entry.name, entry.class_name) for entry in unknown}
        self._commits_of_unknown = {
            key: commit for key, commit in self._commits_of_unknown.items() if key in keys
        }
        if not unknown:
            return listed
        known = (item.connector for item in self._known.values())
        kinds = {
            connector.class_name: connector.kind
            for connector in (*known, *listed.values())
            if connector.kind in {ConnectorKind.SOURCE, ConnectorKind.SINK}
        }
        for entry in unknown:
            key, commit = (entry.name, entry.class_name), witnesses.committed_at(entry.name)
            has_committed = commit != self._commits_of_unknown.setdefault(key, commit)
            if has_committed or find_own_dialect(entry.class_name) is not None:
                kinds.setdefault(entry.class_name, ConnectorKind.SOURCE)
        return {**listed} | {
            entry.name: replace(
                entry,
                kind=kinds[entry.class_name],
                sink=entry.sink_if_one if kinds[entry.class_name] is ConnectorKind.SINK else None,
                sink_if_one=None,
            )
            for entry in unknown
            if entry.class_name in kinds
        }

    def expire(self, now: float, find_starts: Callable[[str], TaskStarts]) -> tuple[Connector, ...]:
        """Drop configurations that no response has confirmed for SILENCE_INTERVALS.

        Names of copies are dropped after COPY_NAMES_INTERVALS where a task has been started since
        the last response: else no other configuration is in use. Return the existing connectors by
        name; the same tuple if unchanged.
        """
        duration_s, connectors = SILENCE_INTERVALS * self.interval_s, self._listed
        silent_s = abs(now - self._answered_at)
        if silent_s <= COPY_NAMES_INTERVALS * self.interval_s:
            return connectors
        for name, known in self._known.items():
            if known.connector.mirror is not None:
                known.expire_copy_names(find_starts(name), now, self.interval_s)
            if silent_s > duration_s:
                known.expire(duration_s, now)
        if self._list_known() is not connectors and self.view is not None:
            self.view = replace(self.view, without_configuration=self._without_configuration())
        return self._listed

    def _without_configuration(self) -> dict[str, float]:
        return {
            name: known.configured_at
            for name, known in sorted(self._known.items())
            if known.configured_at and not known.connector.configured
        }

    def _list_known(self) -> tuple[Connector, ...]:
        connectors = tuple(known.connector for _, known in sorted(self._known.items()))
        if len(connectors) != len(self._listed) or any(
            new is not old for new, old in zip(connectors, self._listed, strict=True)
        ):
            self._listed = connectors
        return self._listed

    @property
    def kafka_cluster_id(self) -> str | None:
        """Return the Kafka cluster id that responses are to have; None before the first."""
        return self._ids[0]

    def recall(self, kafka_cluster_id: str | None) -> None:
        """Restore the id known before a restart; before the first response."""
        self._ids = (kafka_cluster_id, None)

    def _note_unlisted(self, witnesses: ConnectorEvidence, now: float) -> None:
        for name in witnesses.committing():
            if name in self._known:
                continue
            commit = witnesses.committed_at(name)
            absence = self._absences.get(name)
            if absence is None:
                if len(self._absences) >= UNLISTED_CONNECTORS_MAX:
                    continue
                absence = self._absences[name] = _Absence(now, commit)
            absence.see(commit, now)

    def _unlisted(self, witnesses: ConnectorEvidence, now: float) -> Iterable[UnlistedConnector]:
        absent = self._absences | {
            name: known.absence for name, known in self._known.items() if known.absence is not None
        }
        for name, absence in sorted(absent.items()):
            if absence.answers < MISSED_ANSWERS or now - absence.since < self._grace_s:
                continue
            known = self._known.get(name)
            status = None if known is None else witnesses.status_of(name)
            alive = None if status == DELETED else status
            works = (
                absence.moved_at is not None
                and absence.moved_at - absence.since >= self._grace_s
                and now - absence.moved_at <= RECENT_INTERVALS * self.interval_s
            )
            if works or alive is not None:
                yield UnlistedConnector(
                    connector=name,
                    since=absence.since,
                    seen_at=None if known is None else known.seen_at,
                    status=alive,
                    committed_at=absence.commit if works else None,
                )

    def _lost(self, unlisted: tuple[UnlistedConnector, ...]) -> bool:
        """Return whether the address leads to another Connect cluster of the same Kafka cluster.

        It does if unlisted connectors are at work, and no listed one was there before they went
        missing: those that came with that response belong to the other cluster.
        """
        if not unlisted:
            return False
        listed = [known.first_at for known in self._known.values() if known.absence is None]
        went = [connector.since for connector in unlisted if connector.connector in self._known]
        return not listed or (bool(went) and min(listed) >= min(went))

    def _drop_gone(self, witnesses: ConnectorEvidence, now: float, held_since: set[float]) -> None:
        """Forget connectors that are deleted.

        One is deleted if no list has it and its status was deleted. It also is if it has been
        silent for long, and so have all that went missing with the same response, which is one
        cause.
        """
        for name, known in tuple(self._known.items()):
            absence = known.absence
            if absence is None:
                continue
            status = witnesses.status_of(name)
            silent = (
                status in {None, DELETED}
                and not witnesses.may_have_status(name)
                and absence.since not in held_since
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
                and (
                    (missing := tasks_without_state(known.connector))
                    or known.connector.state == UNKNOWN_STATE
                )
            ),
            without_configuration=self._without_configuration(),
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
    """Return the numbers of the existing tasks whose state is not known."""
    return tuple(task.number for task in connector.tasks if task.state == UNKNOWN_STATE)


def _collect_entries(answer: ConnectorsListed) -> Mapping[str, Connector]:
    """Return the connectors of a response by name, including those that only the name list has."""
    names = dict.fromkeys(answer.names or ())
    listed = {connector.name: connector for connector in answer.connectors}
    return {name: _build_unknown_connector(name) for name in names} | listed


def has_restarted(before: TaskStarts, now: TaskStarts) -> bool:
    """Return whether a task was started in between; False if its last start is not known."""
    return bool(before) and not now <= before


def drop_copy_names(connector: Connector) -> Connector:
    """Return a connector without the names of a MirrorMaker's copies."""
    mirror = connector.mirror
    if mirror is None:
        return connector
    return replace(connector, mirror=replace(mirror, routers=(UNKNOWN_ROUTER,)))


def drop_configuration(connector: Connector, kind: ConnectorKind) -> Connector:
    """Drop a configuration except for its offsets topic: the commits there are evidence.

    `kind` is the kind by its status, where a MirrorMaker connector is a source like any other.
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
