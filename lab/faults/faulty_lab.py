"""
Where faults are done to a daemon: a lab whose brokers it reaches by relays and whose worker by a
proxy, on a disk and by a clock of its own.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from lab.check.ground_truth import SYNCS
from lab.check.verdicts import Step
from lab.cluster.build import BROKERS
from lab.cluster.connector_configs import MM2_SOURCE
from lab.cluster.lab import Lab
from lab.cluster.options import BrokerRoute, LabOptions
from lab.faults.recording_proxy import Recorder
from lab.faults.small_disk import SmallDisk, small_disk
from lab.faults.tcp_relay import Relay, relay
from lab.faults.wall_clock import WallClock
from lab.kills import seeded_kills
from lab.processes.ports import LOOPBACK, free_port
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import unchanged

ENDS_S, GROUPS_S, TIMEOUT_S = 1.0, 1.0, 2.0
CONFIG = """\
kafka:
  east: {{bootstrap: "{east}"}}
  west: {{bootstrap: "{west}"}}
connect:
  - name: lab
    kafka: east
    url: "{connect}"
    poll: {{state_s: 1.0, groups_s: {groups_s}, offsets_s: 10.0, timeout_s: {timeout_s}}}
# MirrorMaker and the daemon go different ways to the same brokers: that its source is `west` cannot
# be told from addresses.
flows:
  - source: west
    target: east
    upstream: west
    downstream: east
    offset_syncs: {{kafka: west, topic: {syncs}}}
    connect: lab
    connector: {mirror}
judge: {{interval_s: 3}}
tick_s: 0.2
ends_s: {ends_s}
"""


@dataclass(slots=True)
class Arena:
    """Everything that a fault may lay its hands on."""

    lab: Lab
    product: Product
    connect: Recorder
    """In front of the worker that the daemon asks."""
    brokers: Mapping[str, Relay]
    """Between the daemon and each broker, and nobody else."""
    disk: SmallDisk
    """On which the daemon has all its files, its log among them."""
    clock: WallClock
    steps: list[Step] = field(default_factory=list)
    """How the daemon's clock was set, and when."""

    def step(self, ahead_s: float) -> None:
        """Set the daemon's clock."""
        self.steps.append(Step(at=time.time(), ahead_s=ahead_s))
        self.clock.set(ahead_s)


def config(east_address: str, west_address: str, connect: str) -> str:
    """Clusters and Connect, for a daemon that goes by these ways."""
    return CONFIG.format(
        east=east_address,
        west=west_address,
        connect=connect,
        syncs=SYNCS,
        mirror=MM2_SOURCE,
        ends_s=ENDS_S,
        groups_s=GROUPS_S,
        timeout_s=TIMEOUT_S,
    )


@contextmanager
def arena(name: str, *, remedy: Mapping[str, object] | None = None) -> Iterator[Arena]:
    """
    A lab with its connectors and a daemon that is ready; ended and removed afterwards.

    `remedy` is that section of the daemon's configuration. Without it the daemon may change
    nothing, and it raises in the end if it has.
    """
    ways = {name: BrokerRoute(free_port(), free_port()) for name in BROKERS}
    more = "" if remedy is None else f"remedy: {json.dumps(remedy)}\n"
    with ExitStack() as stack:
        relays = {name: stack.enter_context(relay(*route)) for name, route in ways.items()}
        options = LabOptions(workers=2, ways=ways)
        lab, directory = stack.enter_context(seeded_kills.lab_and_folder(name, options))
        disk = stack.enter_context(small_disk(directory / "disk"))
        clock = WallClock(directory)
        worker = lab.connect_urls[0]
        if remedy is None:
            (recorder,) = stack.enter_context(unchanged(worker))
        else:
            recorder = stack.enter_context(Recorder(worker))
        report = config(
            f"{LOOPBACK}:{ways['east'].at}", f"{LOOPBACK}:{ways['west'].at}", recorder.url
        )
        product = Product(
            lab,
            directory=disk.folder,
            port=free_port(),
            config=report + more,
        )
        product.wrap_command(*clock.before)
        stack.callback(product.stop)
        # A process that stands still hears nothing of its end.
        stack.callback(product.wake_daemon)
        product.start_daemon()
        yield Arena(lab, product, recorder, relays, disk, clock)
