"""
A small steady load: lines into the file of `file-source`, records into topics on west.

It writes what it is told to write and nothing else: it joins no group and commits no offset.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from confluent_kafka import KafkaError, Message, Producer

from lab.cluster.kafka_client import Cluster, settings

TOPICS: Mapping[str, int] = {"orders": 3, "payments": 2}
TICK_S = 0.1
# Of what a pause of the machine or a dead broker held up, no more than this is made good at once.
CATCH_UP_TICKS_MAX = 10
DURATION_S_MAX = 3600.0
RATE_MAX = 5000.0
FLUSH_S_MAX = 5.0


class Target(Protocol):
    """Where a load goes; a started Lab is one, and so is Endpoints."""

    @property
    def west(self) -> str:
        """Bootstrap servers of the cluster the records go to."""

    @property
    def lines_path(self) -> Path:
        """The file the lines go to."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """A target named by address, for a lab that another process started."""

    west: str
    lines_path: Path


class Load:
    """
    Writes `rate_per_s` lines a second to the file and as many records to each topic.

    Runs in a thread of its own from start() to stop(), or until `duration_s_max` has passed. A
    broker that is down costs records, counted in `lost`, and never stops the load. The methods may
    be called from any thread; a context manager starts and stops it.
    """

    def __init__(
        self,
        target: Target,
        *,
        rate_per_s: float = 10.0,
        topics: Mapping[str, int] = TOPICS,
        duration_s_max: float = DURATION_S_MAX,
    ) -> None:
        if not 0 < rate_per_s <= RATE_MAX:
            raise ValueError(f"rate_per_s must be above 0 and at most {RATE_MAX:.0f}")
        self._target = target
        self._rate_per_s = rate_per_s
        self._topics = dict(topics)
        self._duration_s_max = duration_s_max
        self._ended = threading.Event()
        self._paused = threading.Event()
        self._thread: threading.Thread | None = None
        self._tried = dict.fromkeys(self._topics, 0)
        self.lines = 0
        """Lines written to the file so far."""
        self.records = 0
        """Records acknowledged by the broker so far, over all topics."""
        self.lost = 0
        """Records the broker did not take in time, or that found the client's queue full."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the thread is alive; true during a pause."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Make the topics that are missing, then begin to write."""
        if self.running:
            raise RuntimeError("the load is running already")
        west = Cluster("west", self._target.west)
        for topic, partitions in self._topics.items():
            if west.partitions(topic) == 0:
                west.create_topic(topic, partitions, {})
        self._ended.clear()
        self._paused.clear()
        # A daemon thread: a forgotten load must not keep its process, and with it the lab, alive.
        self._thread = threading.Thread(target=self._run, name="lab-load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the load and wait for what is under way; harmless when it has ended."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def pause(self) -> None:
        """Write nothing until resume(); what was not written meanwhile is not made up for."""
        self._paused.set()

    def resume(self) -> None:
        """Go on after pause()."""
        self._paused.clear()

    def _run(self) -> None:
        producer = Producer(
            settings(self._target.west, **{"linger.ms": 20, "message.timeout.ms": 10000})
        )
        began = last = time.monotonic()
        owed = 0.0
        while not self._ended.wait(TICK_S):
            now = time.monotonic()
            if now - began >= self._duration_s_max:
                break
            elapsed = min(now - last, CATCH_UP_TICKS_MAX * TICK_S)
            last = now
            if not self._paused.is_set():
                owed += elapsed * self._rate_per_s
                due = int(owed)
                owed -= due
                self._write_lines(due)
                self._produce(producer, due)
            producer.poll(0)
        producer.flush(FLUSH_S_MAX)

    def _write_lines(self, due: int) -> None:
        with self._target.lines_path.open("a") as handle:
            handle.writelines(f"load {self.lines + n} {time.time():.3f}\n" for n in range(due))
        self.lines += due

    def _produce(self, producer: Producer, due: int) -> None:
        for topic, partitions in self._topics.items():
            for number in range(self._tried[topic], self._tried[topic] + due):
                try:
                    producer.produce(
                        topic,
                        key=f"load-{number}",
                        value=f"{time.time():.3f}",
                        # In turn and not by key, so that no partition ever looks idle.
                        partition=number % partitions,
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    self.lost += 1
            self._tried[topic] += due

    def _delivered(self, error: KafkaError | None, _record: Message) -> None:
        if error is None:
            self.records += 1
        else:
            self.lost += 1
