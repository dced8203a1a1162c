"""Losses of upstream records and recreated topics, as parts of the API and of `explain`."""

from __future__ import annotations

from collections.abc import Iterable

from offsetwatch.model.moments import Moment
from offsetwatch.model.topology import MirrorFlow
from offsetwatch.serve.documents.types import FlowLossRows, LossRow, Retention
from offsetwatch.state.snapshot import Loss, MirrorPartitionView, Snapshot, TopicRecreation

LossFlowKey = tuple[str, str, str, str]  # connect cluster, connector, source, target


def flow_of(at: MirrorFlow | Loss | TopicRecreation) -> LossFlowKey:
    """Return the key of a flow, or of the flow of a loss or a recreation."""
    return (at.connect_cluster, at.connector, at.source, at.target)


def build_retention(view: MirrorPartitionView) -> Retention:
    """Return the distance of retention to a partition's position, and the records lost so far."""
    return {
        "headroom_records": view.headroom,
        "headroom_seconds": view.headroom_s,
        "lost_records": dict(view.lost),
    }


def build_flow_losses(snapshot: Snapshot, flow: LossFlowKey) -> FlowLossRows:
    """Return the newest losses and recreated topics of a flow."""
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
    """Return the rows of lost ranges of offsets; both ends are included."""
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
