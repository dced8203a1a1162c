"""One real Kafka broker without Connect, such as for the journal of several replicas."""

import base64
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.cluster import properties_files
from lab.cluster.build import BROKER_HEAP_MB, FORMAT_S_MAX
from lab.cluster.kafka_client import Cluster
from lab.cluster.options import KAFKA_VERSION
from lab.errors import LabError
from lab.faults.tcp_relay import Relay, relay
from lab.processes.child import Child
from lab.processes.jars import jars
from lab.processes.java import java
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import until

READY_S_MAX = 300.0
# A session may be as short as a test wants it: brokers ask for six seconds by themselves.
SHORT: Mapping[str, str | int] = {"group.min.session.timeout.ms": 500}


@dataclass(frozen=True, slots=True)
class LoneBroker:
    """
    Its address, and relays before it: whoever comes by one of these is sent to no other address of
    the broker, so that holding the relay cuts them off from it.
    """

    address: str
    relays: tuple[Relay, ...]

    def by(self, number: int) -> str:
        """The address of a relay."""
        return f"{LOOPBACK}:{self.relays[number].port}"


@contextmanager
def lone_broker(directory: Path, *, relays: int = 0) -> Iterator[LoneBroker]:
    """Once it serves; ended afterwards."""
    port = free_port()
    ways = {free_port(): free_port() for _ in range(relays)}
    child = _formatted(directory, port, ways)
    cluster = Cluster("journal", f"{LOOPBACK}:{port}")

    def serves() -> None:
        if not child.running:
            raise LabError(f"the broker ended while starting\n{child.tail()}")
        cluster.check_ready()

    child.start()
    try:
        until("the broker serving", serves, timeout_s=READY_S_MAX, evidence=child.tail)
        with ExitStack() as stack:
            built = [
                stack.enter_context(relay(offset, towards)) for offset, towards in ways.items()
            ]
            yield LoneBroker(f"{LOOPBACK}:{port}", tuple(built))
    finally:
        child.terminate()


def _formatted(directory: Path, port: int, ways: Mapping[int, int]) -> Child:
    directory.mkdir(parents=True, exist_ok=True)
    properties: properties_files.Properties = {
        **properties_files.broker(
            port=port, controller_port=free_port(), data=directory / "broker-data"
        ),
        **SHORT,
    }
    for number, (offset, towards) in enumerate(ways.items()):
        properties = properties_files.add_listener(
            properties, f"R{number}", at=offset, towards=towards
        )
    file = directory / "broker.properties"
    file.write_text(properties_files.render(properties))
    classpath = jars(KAFKA_VERSION)
    number = uuid.uuid4().int >> 1  # then it begins with a letter, as in build.py
    cluster_id = base64.urlsafe_b64encode(number.to_bytes(16)).decode().rstrip("=")
    arguments = ["format", "--cluster-id", cluster_id, "--config", str(file)]
    command = java(classpath, "kafka.tools.StorageTool", *arguments, heap_mb=BROKER_HEAP_MB)
    child = Child("format-broker", command, directory=directory)
    child.start()
    child.expect_success(timeout_s=FORMAT_S_MAX)
    command = java(classpath, "kafka.Kafka", str(file), heap_mb=BROKER_HEAP_MB)
    return Child("broker", command, directory=directory)
