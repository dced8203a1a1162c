"""
MirrorMaker stands still under load, and three say how old what waits is: the product, a client of
our own that reads the oldest unreplicated record, and MirrorMaker itself over JMX.

`python -m lab.check.lag_while_stalled --seconds 120` records it, checks it and draws
the picture in docs/. The real test stands still for a shorter while.
"""

import argparse
import csv
import math
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from matplotlib.figure import Figure
from prometheus_client.parser import text_string_to_metric_families

from lab.check.mm2_latency import MirrorLatency
from lab.cluster.connector_configs import MM2_SOURCE, UPSTREAM
from lab.cluster.kafka_client import settings
from lab.cluster.lab import Lab
from lab.cluster.load import TOPICS, Load
from lab.cluster.options import KAFKA_VERSION
from lab.errors import LabError
from lab.moments import seconds
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until
from offsetwatch import __version__
from tools.figures import to_svg

AGREES_S_MAX = 2.0
EVERY_S = 1.0
KNOWN_S_MAX = 60.0
UNCHANGED_S = 5.0  # two flushes of the lab
READ_S_MAX = 10.0
BEFORE_S = 15.0
RATE_PER_S = 50.0
DOCS = Path(__file__).parents[2] / "docs"
NAME = "lag-while-stalled"
# A daemon that asks often, as it may on a machine of its own: what is shown is how exact it is.
INTERVALS = "tick_s: 0.2\nends_s: 1.0\n"

# Told apart without colour too: by width and by dashes. Chosen for people who see few colours.
LINES: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (
        2,
        "age of the oldest unreplicated record (read by a client of its own)",
        {"color": "#bbbbbb", "linewidth": 7},
    ),
    (1, "offsetwatch_mm2_replication_lag_seconds", {"color": "#0072b2"}),
    (
        3,
        "MirrorMaker's replication-latency-ms over JMX",
        {"color": "#d55e00", "linestyle": (0, (4, 2))},
    ),
)

PartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Moment:
    """
    What was said of one partition at one moment, in seconds; None where nothing was.

    since, at  between these the product's figures are of, Unix time by its own clock: of a machine
               that has other things to do they may be a while apart
    product    mm2_replication_lag_seconds
    jmx        MirrorMaker's replication-latency-ms
    """

    since: float
    at: float
    partition: PartitionKey
    product: float | None
    jmx: float | None


class WrittenRecord(NamedTuple):
    """A record: where it stands and when it was written."""

    offset: int
    at: float


def record(product: Product, latency: MirrorLatency, seconds: float) -> list[Moment]:
    """What both say of every partition, every second for so long."""
    results = []
    ends = time.monotonic() + seconds
    while (began := time.monotonic()) < ends:
        since, answer, now = _judged_at(product), lag_seconds(product), _judged_at(product)
        own = latency.read()
        results += [
            Moment(since, now, item, answer.get(item), own.get((f"{UPSTREAM}.{item[0]}", item[1])))
            for item in sorted(answer.keys() | _loaded((t.partition(".")[2], n) for t, n in own))
        ]
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))
    return results


def lag_seconds(product: Product) -> dict[PartitionKey, float]:
    """What the product says now."""
    return _samples(product, "mm2_replication_lag_seconds")


def pause_mirror(lab: Lab, product: Product) -> dict[PartitionKey, float]:
    """
    Pause MirrorMaker under the load that there is, and wait until it has committed all it copied,
    and the product has read what waits after that.

    Returns when the oldest waiting record of each partition was written, as a client of our own
    reads it.
    """
    lab.pause(MM2_SOURCE)
    until(
        "a waiting record of every partition",
        lambda: _all_wait(product),
        timeout_s=KNOWN_S_MAX,
        evidence=product.evidence,
    )
    offsets = committed(lab)
    return {
        location: first_record(lab, location, offsets[location] + 1).at
        for location in _loaded(offsets)
    }


def committed(lab: Lab) -> dict[PartitionKey, int]:
    """What REST says once no flush changes it any more; until then it names copied records."""
    counts, since = replicated(lab), time.monotonic()

    def lasts() -> dict[PartitionKey, int]:
        nonlocal counts, since
        now = replicated(lab)
        if now != counts:
            counts, since = now, time.monotonic()
        if time.monotonic() - since < UNCHANGED_S:
            raise NotYet(f"{now}")
        return now

    return until("the last commit of a paused connector", lasts, timeout_s=KNOWN_S_MAX)


def replicated(lab: Lab) -> dict[PartitionKey, int]:
    """MirrorMaker's offsets, as Connect's REST API gives them."""
    return {
        (offset["partition"]["topic"], int(offset["partition"]["partition"])): int(
            offset["offset"]["offset"]
        )
        for offset in lab.offsets(MM2_SOURCE)
    }


def apart(moments: Sequence[Moment], oldest: Mapping[PartitionKey, float]) -> float:
    """Tell by how many seconds the product differs from the records' own ages at most."""
    silent = [moment for moment in moments if moment.product is None]
    if silent or not moments:
        raise LabError(f"no mm2_replication_lag_seconds: {silent[:3]}")
    return max(_difference_s(moment, oldest[moment.partition]) for moment in moments)


def _difference_s(moment: Moment, oldest: float) -> float:
    """Seconds between the product's figure and the nearest age that was right when it was told."""
    assert moment.product is not None
    least, most = moment.since - oldest, moment.at - oldest
    return max(0.0, least - moment.product, moment.product - most)


def frozen(moments: Sequence[Moment]) -> bool:
    """Did JMX say something of every partition, and always the same?"""
    messages: dict[PartitionKey, set[float | None]] = {}
    for moment in moments:
        messages.setdefault(moment.partition, set()).add(moment.jmx)
    return bool(messages) and all(len(item) == 1 and None not in item for item in messages.values())


def _judged_at(product: Product) -> float:
    """When the snapshot that the product answers from was made, Unix time."""
    return seconds(product.get("/api/v1/flows")["at"])


def _all_wait(product: Product) -> None:
    states = _samples(product, "mm2_caught_up")
    if not states or set(states.values()) != {0.0}:
        raise NotYet(f"caught up: {states}")


def _samples(product: Product, name: str) -> dict[PartitionKey, float]:
    return {
        (sample.labels["topic"], int(sample.labels["partition"])): sample.value
        for family in text_string_to_metric_families(product.metrics())
        for sample in family.samples
        if sample.name == f"offsetwatch_{name}"
        and sample.labels["connector"] == MM2_SOURCE
        and sample.labels["topic"] in TOPICS
    }


def _loaded(locations: Iterable[PartitionKey]) -> set[PartitionKey]:
    """Those of topics that the load goes to: in others nothing may wait."""
    return {location for location in locations if location[0] in TOPICS}


def first_record(lab: Lab, location: PartitionKey, offset: int) -> WrittenRecord:
    """What a client of our own is given first at or after this offset."""
    reader = Consumer(settings(lab.west, **{"group.id": "witness", "enable.auto.commit": "false"}))
    try:
        reader.assign([TopicPartition(*location, offset)])
        message = reader.poll(READ_S_MAX)
    finally:
        reader.close()
    if message is None or message.error() is not None:
        raise LabError(f"no record of {location} at {offset}")
    return WrittenRecord(offset=message.offset() or 0, at=message.timestamp()[1] / 1000)


# --- the recorded proof --------------------------------------------------------------------------


def main() -> int:
    """Exit code 1 if the product differs from the records' own ages, or JMX did not freeze."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of standstill")
    parser.add_argument("--draw", action="store_true", help="the picture and its figures, in docs/")
    inputs = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Lab() as lab:
        product = Product(lab, directory=Path(folder), port=free_port(), extra=INTERVALS)
        try:
            product.start_daemon()
            with Load(lab, rate_per_s=RATE_PER_S), MirrorLatency(lab.pids["connect-1"]) as latency:
                until("lags in seconds", lambda: _some(product), timeout_s=KNOWN_S_MAX)
                working = record(product, latency, BEFORE_S)
                paused_at = time.time()
                oldest = pause_mirror(lab, product)
                status = record(product, latency, inputs.seconds)
        finally:
            product.stop()
    worst, still = apart(status, oldest), frozen(status)
    print(
        f"standstill   {inputs.seconds:.0f} s, {len(oldest)} partitions, {len(status)} samples: "
        f"at most {worst:.2f} s from the age of the oldest unreplicated record; "
        f"JMX {'frozen' if still else 'moved'}"
    )
    if inputs.draw:
        draw(working + status, oldest, paused_at)
    return 0 if worst < AGREES_S_MAX and still else 1


def _some(product: Product) -> None:
    if len(lag_seconds(product)) < sum(TOPICS.values()):
        raise NotYet(f"{lag_seconds(product)}")


def draw(moments: Sequence[Moment], oldest: Mapping[PartitionKey, float], paused_at: float) -> None:
    """One partition's figures, and the picture of them."""
    lowest = min(oldest)
    own = [moment for moment in moments if moment.partition == lowest]
    rows = [
        (
            moment.at - paused_at,
            moment.product,
            max(0.0, moment.at - oldest[lowest]) if moment.at > paused_at else None,
            moment.jmx,
        )
        for moment in own
    ]
    with (DOCS / f"{NAME}.csv").open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("since_pause_s", "lag_seconds", "record_age_s", "jmx_latency_s"))
        for row in rows:
            writer.writerow("" if value is None else f"{value:.3f}" for value in row)
    day = datetime.fromtimestamp(paused_at, tz=UTC).date().isoformat()
    title = (
        f"{lowest[0]}-{lowest[1]} while MirrorMaker 2 stands still, "
        f"Kafka {KAFKA_VERSION}, offsetwatch {__version__}, {day}"
    )
    (DOCS / f"{NAME}.svg").write_text(plot(title, rows))


def plot(title: str, rows: Sequence[Sequence[float | None]]) -> str:
    """The picture of such rows, as SVG; a gap in a column is a gap in its line."""
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    columns = [
        [math.nan if value is None else value for value in row] for row in zip(*rows, strict=True)
    ]
    for column, label, style in LINES:
        axes.plot(columns[0], columns[column], label=label, **style)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set(xlabel="seconds since the connector was paused", ylabel="seconds", ylim=(0, None))
    axes.margins(x=0)
    axes.grid(color="#eeeeee")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    return to_svg(figure)


if __name__ == "__main__":
    sys.exit(main())
