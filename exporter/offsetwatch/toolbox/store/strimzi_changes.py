"""Changes of a connector's offsets through the Strimzi resource that owns it.

Nothing here changes anything, except for listing offsets: drivers are only built.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from offsetwatch.model.connect.connectors import ConnectorKind, ConnectorSettings
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.strimzi.ownership import find_obstacle
from offsetwatch.remedy.drivers.strimzi.resource_state import ConnectorResource
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, PlanSubject, RequestedState, Reset
from offsetwatch.toolbox import connector_facts as facts
from offsetwatch.toolbox.change import MOVING_OFFSETS_NOTE, ChangeSteps, StateBeforeChange
from offsetwatch.toolbox.store.strimzi import StrimziOffsetReader
from offsetwatch.toolbox.suggestions import explain_offsets_name, find_nearest, format_names
from offsetwatch.toolbox.validation import ValidationFacts, ValidationProblem

_FAILED_NOTE: Final = "it has failed: Strimzi before 1.1 does not stop a connector that has failed"


class StrimziOffsetStore:
    """OffsetStore through Strimzi. `home` is the workers' configured Kafka cluster, if known."""

    def __init__(
        self, reader: StrimziOffsetReader, kafkas: facts.KafkaClusterPool, home: str | None
    ) -> None:
        self._place = reader
        self._kafkas = kafkas
        self._home = home

    @property
    def place(self) -> StrimziOffsetReader:
        """The reader of the current offsets."""
        return self._place

    @property
    def kafkas(self) -> facts.KafkaClusterPool:
        """The Kafka clusters of the configuration."""
        return self._kafkas

    def settings(self, connector: str) -> ConnectorSettings | None:
        """Return the connector's configuration from its resource."""
        return self._place.settings(connector)

    def upstream(self, connector: str) -> str | None:
        """Return the cluster that a MirrorSourceConnector copies from; None if unknown."""
        return self._kafkas.upstream(self.settings(connector))

    def lock(self, connector: str) -> str:
        """Return the name in the journal of the connector's cluster."""
        del connector
        return self._place.lock

    def standing(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the state that the connector's resource specifies, or why it cannot be changed."""
        connector_resource = self._place.seen(connector)
        if connector_resource is None:
            there = self._place.connectors()
            meant = find_nearest(connector, there)
            right = (
                f"did you mean {meant}?" if meant else f"it has: {format_names(there) or 'none'}"
            )
            right += explain_offsets_name(connector)
            return ValidationProblem(connector, f"{self._place.name} has no such connector", right)
        problem = self._problem(connector, connector_resource)
        if problem is not None:
            return problem
        notes = [MOVING_OFFSETS_NOTE] if connector_resource.wanted is RequestedState.RUNNING else []
        notes += [_FAILED_NOTE] if connector_resource.state == "failed" else []
        subject = PlanSubject(
            driver="strimzi",
            place=self._place.lock,
            connector=connector,
            kind=self._kind(connector),
            identity=str(connector_resource.metadata.get("uid")),
        )
        return StateBeforeChange(subject, connector_resource.wanted, tuple(notes))

    def _problem(
        self, connector: str, connector_resource: ConnectorResource
    ) -> ValidationProblem | None:
        """Return why its resource must not be changed, or why a change would have no effect."""
        name = self._place.of_gitops(connector)
        if name is not None:
            right = (
                f"{name} would put back what is changed in the middle of it: make it leave the "
                "resource alone for that time, or say --even-if-gitops"
            )
            return ValidationProblem(
                connector, f"{connector_resource.owner.said} is owned by {name}", right
            )
        unmanaged = self._place.unmanaged()
        if unmanaged is not None:
            return ValidationProblem(
                connector, unmanaged, "the operator would not act: --connect goes there"
            )
        found = find_obstacle(connector_resource)
        return None if found is None else ValidationProblem(connector, *found)

    def _kind(self, connector: str) -> str:
        settings = self.settings(connector)
        kinds = {ConnectorKind.SINK: "sink", ConnectorKind.MIRROR: "mirror"}
        return "source" if settings is None else kinds.get(settings.kind, "source")

    def facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        wanted: Collection[TopicPartition],
    ) -> ValidationFacts:
        """Gather facts from its resource, and from the clusters of the configuration file."""
        return facts.gather_facts(
            connector,
            self.settings(connector),
            present,
            wanted,
            kafkas=self._kafkas,
            home=self._home,
        )

    def effect(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return the one step of the operator."""
        del connector
        return ChangeSteps((Reset() if whole else Alter(pairs),))

    def driver(self, connector: str) -> Driver:
        """Build a StrimziDriver."""
        return self._place.driver(connector)

    def close(self) -> None:
        """Close connections."""
        self._place.close()
        self._kafkas.close()
