"""Is this request sound? Pure: what is asked for, held against what is known of the world.

Connect checks next to nothing of what it is asked to write (a wrong alias, a topic that is not
there, an offset past the end of its log: all 200), and finds out when the tasks start. So every
problem is found here first, all of them at once, each with what would be right. What is not known
is a problem too. Called by changes.py; facts.py gathers the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.model.connectors import ConnectorKind, MirrorSettings, SinkSettings
from exporter.model.topology import TopicPartition
from exporter.remedy.plan import Pair


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a request.

    where   its place in the document: `name[3].offset.position`
    wrong   what is wrong with it, one clause
    right   what would be right, or what to do to find out; "" where nobody can say
    """

    where: str
    wrong: str
    right: str

    def __str__(self) -> str:
        return f"{self.where}: {self.wrong}" + (f"; {self.right}" if self.right else "")


@dataclass(frozen=True, slots=True)
class Request:
    """What one connector's offsets are to be, in the order of the document, each partition once.

    where       of the list in its document, for Problem: `name`, or `offsets` of a PATCH body
    allow_new   source partitions that were never there may be made, and the values of those that
                nobody here can check be written
    """

    connector: str
    pairs: tuple[Pair, ...]
    where: str
    allow_new: bool = False


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The records a partition holds: those from `start` up to and without `end`.

    end     as the connector's consumer sees it: the last stable offset where it reads committed
            records only, else the high watermark
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one connector and of what it reads.

    kind, class_name    UNKNOWN and "" where nobody tells (an offsets file)
    mirror, sink        its settings, where it is a MirrorSourceConnector, or a sink
    present             its offsets now, as the place shows them
    topics              topic -> number of partitions, of the cluster that it reads from; None: not
                        known
    logs                of the partitions that the request names, those that could be asked for
    assigned            what the tasks of a mirror copy; None where that is not known, as of one
                        that has been stopped
    filename            `file` of a FileStreamSourceConnector
    unknown             why something is not known, each with what to configure
    """

    connector: str
    kind: ConnectorKind
    class_name: str
    present: tuple[Pair, ...]
    mirror: MirrorSettings | None = None
    sink: SinkSettings | None = None
    topics: Mapping[str, int] | None = None
    logs: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    assigned: frozenset[TopicPartition] | None = None
    filename: str | None = None
    unknown: tuple[str, ...] = ()


def named_partitions(pairs: tuple[Pair, ...]) -> frozenset[TopicPartition]:
    """The Kafka partitions whose log bounds a request needs: of a mirror or of a sink, and only
    where an offset is given.
    """
    raise NotImplementedError


def problems(request: Request, facts: Facts) -> tuple[Problem, ...]:
    """All that is wrong, in the order of the document; nothing if it can be carried out."""
    raise NotImplementedError
