"""What a lab can be asked for: one frozen dataclass, and the ports that go with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

KAFKA_VERSION = "4.3.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """
    Every port a lab may listen on, all on loopback. The defaults are those of `python -m lab up`.

    None may lie in the kernel's ephemeral range: a client that polls a port nobody serves yet can
    be given that very port as its own and then talk to itself, and the broker can never bind it.
    """

    east: int = 19092
    east_controller: int = 19093
    west: int = 29192
    west_controller: int = 29193
    connect_1: int = 18083
    connect_2: int = 18084
    east_secured: int = 19094
    west_secured: int = 29194
    connect_1_secured: int = 18443
    connect_2_secured: int = 18444
    other: int = 18085
    standalone: int = 18086
    postgres: int = 15432
    mariadb: int = 13306


class BrokerRoute(NamedTuple):
    """Another way to a broker: clients are sent to port `at`, where somebody relays `towards`."""

    at: int
    towards: int


@dataclass(frozen=True, slots=True)
class LabOptions:
    """How a lab is made; the defaults are the smallest one that has every kind of connector."""

    kafka_version: str = KAFKA_VERSION
    """The newest release that has all parts. Workers older than 3.9 cannot say that they are up."""

    exactly_once: bool = False
    """Off, as in Connect itself: with it every offset commit becomes a transaction."""

    workers: int = 1
    """One, because each worker is a JVM; two when a rebalance or a lost worker is the subject."""

    dedicated_mm2: bool = False
    """Adds a MirrorMaker process of its own, flow w2->e2 over `ledger`; off, as it is a JVM too."""

    second_cluster: bool = False
    """
    Adds a worker that is a Connect cluster of its own, `other`; off, as it is a JVM too. It is
    never exactly-once, so that one lab can have both kinds.
    """

    standalone: bool = False
    """
    Adds a standalone worker on east, `standalone`, that keeps its offsets in a file and has a
    source and a sink connector; off, as it is a JVM too.
    """

    directory: Path | None = None
    """
    Where data and logs go. None makes a temporary one that stop() removes; a given one is kept,
    and a lab started on it again, on the same ports, goes on where it ended.
    """

    ports: Literal["fixed", "free"] | Ports = "free"
    """Free, so that two labs can run at once; `python -m lab up` wants fixed ones."""

    offset_flush_interval_ms: int = 2000
    """Two seconds where Connect has sixty: nobody should wait a minute to see a commit."""

    secured: bool = False
    """
    Adds SASL_SSL listeners to the brokers and https to the workers, whose REST then asks for a
    password on every listener. Off, as it takes certificates and tells nothing about offsets.
    """

    authorizer: bool = False
    """
    Whether the brokers ask an authorizer, which allows everybody everything until an ACL says
    otherwise. Off, as in Kafka itself.
    """

    ways: Mapping[str, BrokerRoute] = field(default_factory=dict)
    """
    Another way to some brokers, by their names: whoever starts the lab stands there with a relay.
    None, as nobody is to be cut off from a broker that others still reach.
    """

    plugins: bool = False
    """
    Puts the lab's own plugins on the workers' classpath (plugins.py): a sink and a converter that
    fail when a server is away, a source with partitions in maps of any kind. Off, as they take a
    compiler.
    """

    postgres: bool = False
    """
    Adds a PostgreSQL server, `postgres`, and a Debezium connector that reads it. Off, as neither
    Python nor Maven brings the server (`make databases`).
    """

    mariadb: bool = False
    """The same with a MariaDB server, `mariadb`."""

    jdbc_sink: bool = False
    """
    Adds Debezium's JDBC sink to the workers, and no connector. Off, as a worker takes longer to
    start with it.
    """

    jdbc_source: bool = False
    """
    Adds a source with the offsets of the JDBC source connectors to the workers, and no connector.
    Off, as it takes a compiler.
    """

    registry_converters: bool = False
    """
    Adds Apicurio's converters to the workers (lab/registry), and no registry. Off, as Maven has to
    bring them.
    """

    on_demand: frozenset[str] = frozenset()
    """
    Workers that start() leaves out, by name: start_process() starts one when it is needed. None,
    as only a lab that serves many tests has some that need more workers than others.
    """

    connectors: bool = True
    """Whether start() also creates the standard connectors and waits until they run."""

    def __post_init__(self) -> None:
        major, minor = self.kafka_version.split(".")[:2]
        if (int(major), int(minor)) < (3, 9):
            raise ValueError(f"kafka_version must be 3.9 or newer, not {self.kafka_version}")
        if self.workers not in (1, 2):
            raise ValueError(f"workers must be 1 or 2, not {self.workers}")
