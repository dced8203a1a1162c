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
        "losses": build_loss_rows(loss for loss in snapshot.losses if flow_of(loss) == flow),
        "recreations": [
            {
                "topic": recreation.topic,
                "count": recreation.count,
                "at": Moment(recreation.at),
                "id_before": recreation.before,
                "id_after": recreation.after,
            }
            for recreation in snapshot.recreations
            if flow_of(recreation) == flow
        ],
    }


def build_loss_rows(found: Iterable[Loss]) -> list[LossRow]:
    """Ranges of offsets, both ends in them."""
    return [
        {
            "topic": loss.topic,
            "partition": loss.partition,
            "cause": loss.cause,
            "first": loss.first,
            "last": loss.last,
            "records": loss.records,
            "at": Moment(loss.at),
        }
        for loss in found
    ]
