"""Encoding of loss accounts and Connect cluster state that must survive a restart.

The state is that of loss/accounting.py and connect/connect_cluster.py. The format is JSON with one
row per partition: 100,000 of them are written and read in well under a second. A document
of another version, or with impossible values, is rejected as a whole: a part of it would count
losses again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from offsetwatch.state.connect.connect_cluster import PersistedConnectCluster
from offsetwatch.state.loss.accounting import (
    ALTERED,
    CAUSES,
    RECREATED,
    LogStartJump,
    LossAccounting,
    PartitionLossAccount,
    PartitionRates,
    PositionJump,
    PositionSample,
    TopicLossAccount,
)
from offsetwatch.state.mirror.offset_syncs import Range
from offsetwatch.state.snapshot import ConnectorFlowKey, Loss

VERSION: Final = 1


class LossDocumentError(ValueError):
    """Error: not a document of `encode_losses`, or one of another version."""


class _JumpRow(NamedTuple):
    mark: int
    first: int
    cause: str
    since: float
    harmless: bool


class _RatesRow(NamedTuple):
    anchor: PositionSample | None
    middle: PositionSample | None
    best: float
    best_before: float
    jumps: tuple[LogStartJump, ...]


class _Row(NamedTuple):
    """Row of one partition's account.

    `behind` is the number of topic recreations that it has not applied yet.
    """

    partition: int
    behind: int
    position: int | None
    settled: int
    start: int
    end: int
    moved_at: float
    doubt_since: float | None
    leap: _JumpRow | None
    tail: Range | None
    lost: tuple[int, int, int]
    pace: _RatesRow


class _Topic(msgspec.Struct, forbid_unknown_fields=True):
    at: float
    id: str | None
    recreations: int
    recreated_at: float
    before: str | None
    after: str | None
    partitions: list[_Row]


class _Flow(msgspec.Struct, forbid_unknown_fields=True):
    flow: ConnectorFlowKey
    topics: dict[str, _Topic]


class _Document(msgspec.Struct, forbid_unknown_fields=True, rename={"connect_clusters": "sites"}):
    version: int
    flows: list[_Flow]
    losses: list[Loss]
    connect_clusters: dict[str, PersistedConnectCluster] = {}


_decoder = msgspec.json.Decoder(_Document)


def encode_losses(
    losses: LossAccounting, clusters: Mapping[str, PersistedConnectCluster] | None = None
) -> bytes:
    """Encode all accounts and lost ranges, and `clusters` by Connect cluster."""
    flows = [
        _Flow(flow=key, topics={name: _build_topic(account) for name, account in topics.items()})
        for key, topics in losses.flows.items()
    ]
    document = _Document(
        version=VERSION,
        flows=flows,
        losses=list(losses.losses),
        connect_clusters=dict(clusters or {}),
    )
    return msgspec.json.encode(document)


def restore_losses(
    accounting: LossAccounting, document: bytes
) -> dict[str, PersistedConnectCluster]:
    """Restore the accounts, and return the state of Connect clusters in the document.

    That is empty in a document of an older release without it. Raises LossDocumentError, having
    changed nothing.
    """
    document_ = _decode_document(document)
    flows = {
        flow.flow: {name: _restore_topic(topic) for name, topic in flow.topics.items()}
        for flow in document_.flows
    }
    if any(loss.cause not in CAUSES or loss.first > loss.last for loss in document_.losses):
        raise LossDocumentError("a loss that cannot be")
    accounting.flows = flows
    for loss in document_.losses:
        accounting.add(loss)
    accounting.version += 1
    return document_.connect_clusters


def decode_clusters(document: bytes) -> dict[str, PersistedConnectCluster]:
    """Return the state of Connect clusters in a document. Raises LossDocumentError."""
    return _decode_document(document).connect_clusters


def _decode_document(document: bytes) -> _Document:
    try:
        decoded = _decoder.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise LossDocumentError(str(exc)) from exc
    if decoded.version != VERSION:
        raise LossDocumentError(f"version {decoded.version}, and this is {VERSION}")
    return decoded


def _build_topic(topic_account: TopicLossAccount) -> _Topic:
    return _Topic(
        at=topic_account.at,
        id=topic_account.id,
        recreations=topic_account.recreations,
        recreated_at=topic_account.recreated_at,
        before=topic_account.before,
        after=topic_account.after,
        partitions=[
            _build_partition_row(number, topic_account.generation - account.generation, account)
            for number, account in topic_account.accounts.items()
        ],
    )


def _build_partition_row(number: int, behind: int, account: PartitionLossAccount) -> _Row:
    jump, rates = account.jump, account.rates
    return _Row(
        partition=number,
        behind=behind,
        position=account.position,
        settled=account.settled,
        start=account.start,
        end=account.end,
        moved_at=account.moved_at,
        doubt_since=account.doubt_since,
        leap=None
        if jump is None
        else _JumpRow(jump.mark, jump.first, jump.cause, jump.since, jump.harmless),
        tail=account.tail,
        lost=(account.lost[0][1], account.lost[1][1], account.lost[2][1]),
        pace=_RatesRow(rates.anchor, rates.middle, rates.best, rates.best_before, rates.jumps),
    )


def _restore_topic(topic: _Topic) -> TopicLossAccount:
    return TopicLossAccount(
        at=topic.at,
        id=topic.id,
        recreations=topic.recreations,
        recreated_at=topic.recreated_at,
        before=topic.before,
        after=topic.after,
        accounts={row.partition: _restore_partition(row) for row in topic.partitions},
    )


def _restore_partition(row: _Row) -> PartitionLossAccount:
    numbers = (row.settled, row.start, row.end, row.behind, *row.lost)
    if min(numbers) < 0 or (row.leap is not None and row.leap.cause not in {ALTERED, RECREATED}):
        raise LossDocumentError(f"partition {row.partition}: an account that cannot be")
    return PartitionLossAccount(
        position=row.position,
        settled=row.settled,
        start=row.start,
        end=row.end,
        moved_at=row.moved_at,
        doubt_since=row.doubt_since,
        jump=None if row.leap is None else PositionJump(*row.leap),
        tail=row.tail,
        lost=tuple(zip(CAUSES, row.lost, strict=True)),
        rates=PartitionRates(*row.pace),
        generation=-row.behind,
    )
