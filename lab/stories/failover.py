"""Checkpoints that stand still while everything they are made of moves on."""

from dataclasses import dataclass

from lab.cluster.connector_configs import Config, mm2_checkpoint
from lab.stories import cluster_actions
from lab.stories.flow import DEADLINE_S, Deed, Flow, copied, stop_mirror
from lab.waiting import NotYet, until


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoint connector of a flow, for one group on west."""

    flow: Flow

    @property
    def connector(self) -> str:
        """The MirrorCheckpointConnector."""
        return f"{self.flow.name}-checkpoint"

    @property
    def group(self) -> str:
        """The group it translates."""
        return f"{self.flow.name}-group"

    @property
    def topic(self) -> str:
        """On east."""
        return f"{self.flow.source}.checkpoints.internal"

    def config(self) -> Config:
        """As the standard one, for this flow and group only."""
        lab = self.flow.lab
        baseline = mm2_checkpoint(upstream=lab.west, downstream=lab.east, topics=self.flow.topic)
        return {**baseline, **self.flow.aliases, "groups": self.group}

    def written(self) -> int:
        """How many checkpoints there are."""
        return len(cluster_actions.records(self.flow.lab.east, self.topic))

    def advance(self, records: int) -> None:
        """Records upstream, copied, and taken by the group."""
        flow = self.flow
        flow.produce(records)
        log_end = copied(flow).log_end
        flow.lab.commit("west", self.group, flow.topic, {0: log_end})


def begin(checkpoints: Checkpoints) -> Checkpoints:
    """Make the connector and wait for a first checkpoint; the flow runs already."""
    lab = checkpoints.flow.lab
    checkpoints.advance(5)
    lab.create(checkpoints.connector, checkpoints.config())
    lab.wait_running(checkpoints.connector)

    def check() -> None:
        if not checkpoints.written():
            raise NotYet("none")

    until("a first checkpoint", check, timeout_s=DEADLINE_S)
    return checkpoints


def stopped(checkpoints: Checkpoints) -> Deed:
    """The checkpoint connector is stopped; syncs and the group go on (Checkpoints.advance)."""
    stop_mirror(checkpoints.flow.lab, checkpoints.connector)
    checkpoints.advance(5)
    return checkpoints.flow.deed()


def resumed(checkpoints: Checkpoints) -> None:
    """It runs again, and writes a checkpoint for where the group is now."""
    lab, before = checkpoints.flow.lab, checkpoints.written()
    lab.resume(checkpoints.connector)
    lab.wait_running(checkpoints.connector)

    def check() -> None:
        if checkpoints.written() <= before:
            raise NotYet("none since")

    until("a new checkpoint", check, timeout_s=DEADLINE_S)
