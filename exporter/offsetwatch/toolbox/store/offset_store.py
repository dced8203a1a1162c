"""Base of offset stores: the offsets of connectors over REST, through Strimzi, or in a storage.

A store reads offsets, and plans changes of them. It changes nothing itself: the drivers that it
builds do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.connectors import ConnectorKind, ConnectorSettings
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import AnyStep, PartitionOffset, PlanSubject, RequestedState
from offsetwatch.toolbox.connector_facts import KafkaClusterPool, gather_facts
from offsetwatch.toolbox.offset_shapes import Fields
from offsetwatch.toolbox.source_pool import SourcePool
from offsetwatch.toolbox.validation import ValidationFacts, ValidationProblem

MOVING_OFFSETS_NOTE: Final = (
    "it is running: its present offsets move until it has stopped; the requested ones do not"
)
"""The note about anything that is changed while the connector runs."""


class HistoricOffset(NamedTuple):
    """A historic record (`--from-beginning`): its pair, and when and where it was written.

    at          Unix seconds; None in a file
    """

    connector: str
    pair: PartitionOffset
    at: float | None
    kpartition: int | None
    koffset: int | None


class StateBeforeChange(NamedTuple):
    """The state of a connector before a change.

    state   restored afterwards; None where there is nothing to stop
    notes   unusual facts about the state, a sentence each
    new     no connector here has its name yet: it may be misspelt
    blocked why a change is refused now, although the difference can be computed
    """

    subject: PlanSubject
    state: RequestedState | None
    notes: tuple[str, ...] = ()
    new: bool = False
    blocked: ValidationProblem | None = None


class ChangeSteps(NamedTuple):
    """The steps that make the change, and notes about it for the user."""

    steps: tuple[AnyStep, ...]
    notes: tuple[str, ...] = ()


class OffsetStore(ABC):
    """Offsets of the connectors of a cluster.

    Every query may raise ClientError, and RemoteRefusal where the query is not supported.

    kafkas      the Kafka clusters of the configuration, or of a MirrorMaker's file
    home        the configured Kafka cluster that the workers use; None if it is unknown
    sources     the configured sources
    no_past     why only current offsets are available, where that is so
    can_watch   its driver sees whether the tasks run
    """

    no_past: str = ""
    can_watch: bool = False

    def __init__(
        self, kafkas: KafkaClusterPool, home: str | None, sources: SourcePool | None = None
    ) -> None:
        self.kafkas = kafkas
        self.home = home
        self.sources = SourcePool() if sources is None else sources

    @property
    @abstractmethod
    def name(self) -> str:
        """The Connect cluster's name, `kafka/topic`, or a path, for users."""

    @abstractmethod
    def connectors(self) -> tuple[str, ...]:
        """Return the names of all connectors that are known or have offsets here, sorted."""

    @abstractmethod
    def settings(self, connector: str) -> ConnectorSettings | None:
        """Return the connector's settings as of the first query; None if they are unknown."""

    @abstractmethod
    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that a task would receive now, by partition; without removed ones."""

    @abstractmethod
    def lock_name(self, connector: str) -> str:
        """Return the name in the journal of this connector's cluster or storage."""

    @abstractmethod
    def read_state(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the connector's state, or why it cannot be changed."""

    @abstractmethod
    def plan_steps(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return the steps that set these pairs; `whole` if no offset may remain."""

    @abstractmethod
    def driver(self, connector: str) -> Driver:
        """Build the driver that executes a plan, and that also deletes topics where needed."""

    def notes(self, connector: str) -> tuple[str, ...]:
        """Return notes about the connector's offsets, a sentence each.

        They are about keys in other bytes, a value that is no offset, or a dedicated topic that
        hides the worker's.
        """
        del connector
        return ()

    def from_beginning(self, connectors: frozenset[str] | None) -> Iterator[HistoricOffset]:
        """Yield every record that still exists, in log order.

        Raises RemoteRefusal where only current offsets are available.
        """
        del connectors
        raise RemoteRefusal(self.name, self.no_past)

    def configured_upstream(self, connector: str) -> str | None:
        """Return the upstream cluster of the connector's configured flow; None without one."""
        del connector
        return None

    def assigned(self, connector: str) -> frozenset[TopicPartition] | None:
        """Return what the tasks of a mirror copied at the first query; None if it is unknown."""
        del connector
        return None

    def upstream(self, connector: str) -> str | None:
        """Return the cluster that a MirrorSourceConnector copies from; None if unknown."""
        return self.configured_upstream(connector) or self.kafkas.upstream(self.settings(connector))

    def gather_facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        partitions: Collection[TopicPartition],
        settings: ConnectorSettings | None = None,
        source_partitions: Collection[Fields] = (),
    ) -> ValidationFacts:
        """Gather the facts for checking its offsets, with the logs of the `partitions`.

        settings            of a connector that does not exist yet
        source_partitions   source partitions whose offsets are to be set; if there are any, the end
                            of the source is read
        """
        known = settings or self.settings(connector)
        copies = settings is None and known is not None and known.mirror is not None
        facts = gather_facts(
            connector,
            known,
            present,
            partitions,
            kafkas=self.kafkas,
            home=self.home,
            upstream=self.configured_upstream(connector),
            assigned=self.assigned(connector) if copies else None,
        )
        if known is None or not source_partitions:
            return facts
        return replace(facts, source=self.sources.read(connector, known, source_partitions))

    def close(self) -> None:
        """Close connections."""
        self.kafkas.close()
        self.sources.close()


def subject_kind(kind: ConnectorKind) -> str:
    """Return a connector's kind for a PlanSubject: `source` if it is unknown."""
    return "source" if kind is ConnectorKind.UNKNOWN else kind.value
