"""What became of upstream records, as documents of the API and of `explain`."""

from __future__ import annotations

from collections.abc import Iterable

from offsetwatch.model.moments import Moment
from offsetwatch.model.topology import MirrorFlow
from offsetwatch.serve.documents.types import FlowLossRows, LossRow, Retention
from offsetwatch.state.snapshot import Loss, MirrorPartitionView, Snapshot, TopicRecreation

LossFlowKey = tuple[str, str, str, str]  # connect cluster, connector, source, target


def flow_of(at: MirrorFlow | Loss | TopicRecreation) -> LossFlowKey:
    """Whose it is."""
    return (at.connect_cluster, at.connector, at.source, at.target)


def build_retention(view: MirrorPartitionView) -> Retention:
    """How near retention is to one partition's position, and what was ever lost of it."""
    return {
        "headroom_records": view.headroom,
        "headroom_seconds": view.headroom_s,
        "lost_records": dict(view.lost),
    }


def build_flow_losses(snapshot: Snapshot, flow: LossFlowKey) -> FlowLossRows:
    """The newest ranges that a flow lost, and its topics that were made anew."""
    return {
        "losses": build_loss_rows(at for at in snapshot.losses if flow_of(at) == flow),
        "recreations": [
            {
                "topic": at.topic,
                "count": at.count,
                "at": Moment(at.at),
                "id_before": at.before,
                "id_after": at.after,
            }
            for at in snapshot.recreations
            if flow_of(at) == flow
        ],
    }


def build_loss_rows(found: Iterable[Loss]) -> list[LossRow]:
    """Ranges of offsets, both ends in them."""
    return [
        {
            "topic": at.topic,
            "partition": at.partition,
            "cause": at.cause,
            "first": at.first,
            "last": at.last,
            "records": at.records,
            "at": Moment(at.at),
        }
        for at in found
    ]
