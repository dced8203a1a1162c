"""A Connect cluster in memory, on virtual time: what simulations and the contract suite run on.

Unlike tests/fakes/connect.py, which answers as one worker does, this models how Connect comes to
its answers: config topic, herder threads, rebalances, tasks that work, zombies, late jobs. Clients
reach it through a Door.
"""

from tests.fakes.connect_model.broker import At, Broker, Record, Trouble
from tests.fakes.connect_model.cluster import Effect, FakeConnect, Timing
from tests.fakes.connect_model.outside_changes import Operator, OutsideClient
from tests.fakes.connect_model.plugins import (
    FILE_SINK,
    FILE_SOURCE,
    JDBC_SOURCE,
    MIRROR_CHECKPOINT,
    MIRROR_HEARTBEAT,
    MIRROR_SOURCE,
    ROWS,
    SINK,
)
from tests.fakes.connect_model.timeline import Timeline
from tests.fakes.connect_model.transports import (
    Door,
    Fault,
    How,
    TransportExchange,
    conflict,
    error,
    page,
)

__all__ = [
    "FILE_SINK",
    "FILE_SOURCE",
    "JDBC_SOURCE",
    "MIRROR_CHECKPOINT",
    "MIRROR_HEARTBEAT",
    "MIRROR_SOURCE",
    "ROWS",
    "SINK",
    "At",
    "Broker",
    "Door",
    "Effect",
    "FakeConnect",
    "Fault",
    "How",
    "Operator",
    "OutsideClient",
    "Record",
    "Timeline",
    "Timing",
    "TransportExchange",
    "Trouble",
    "conflict",
    "error",
    "page",
]
