"""Where the toolbox's verbs read: a place is opened as the options say, and a long read is seen.

A progress bar is drawn on standard error, and only where that is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from exporter import config
from exporter.cli.asked import Where
from exporter.clock import SystemClock
from exporter.config import Config, Connect, Kafka
from exporter.errors import ConfigError
from exporter.toolbox.facts import Kafkas
from exporter.toolbox.place import Progress
from exporter.toolbox.storage_place import StoragePlace, storage_of
from exporter.toolbox.ways import RestWay, StorageWay
from exporter.toolbox.words import nearest, told
from exporter.toolbox.worker_config import mirror_clusters

SHOWN_EVERY: Final = 1000  # records between two moves of a bar


class Bar:
    """A Progress for people: drawn from the first record on until the last."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - a third of a verb's start
        from rich.progress import Progress as Drawn  # noqa: PLC0415

        self._drawn = Drawn(console=Console(stderr=True), transient=True)
        self._task = self._drawn.add_task("reading records", total=None)
        self._shown = 0

    def __call__(self, done: int, of: int | None) -> None:
        """See Progress."""
        ended = of is not None and done >= of
        if self._shown == 0 and not ended:
            self._drawn.start()
        if ended or done - self._shown >= SHOWN_EVERY:
            self._shown = done
            self._drawn.update(self._task, completed=done, total=of)
        if ended:
            self._drawn.stop()
            self._shown = 0


def bar() -> Progress | None:
    """None where nobody would see it."""
    return Bar() if sys.stderr.isatty() else None


def loaded(where: Where) -> Config | None:
    """The configuration, if one was named. Raises ConfigError."""
    return None if where.config_path is None else config.load(where.config_path)


def connect_named(loaded: Config, name: str) -> Connect:
    """Raises ConfigError with the names there are."""
    names = [connect.name for connect in loaded.connect]
    for connect in loaded.connect:
        if connect.name == name:
            return connect
    meant = nearest(name, names)
    right = f"did you mean {meant}?" if meant else f"known: {told(names) or 'none'}"
    raise ConfigError((f"--connect: no Connect cluster {name} ({right})",))


@contextmanager
def way_of(where: Where) -> Iterator[RestWay | StorageWay]:
    """The way that the options name. Raises ConfigError."""
    found = loaded(where)
    if where.connect is not None:
        assert found is not None  # the declarations see to it
        with closing(RestWay(found, connect_named(found, where.connect))) as way:
            yield way
        return
    assert where.worker_config is not None  # the declarations see to it
    kafkas = Kafkas(mirror_clusters(where.worker_config) if found is None else found.kafka)
    with closing(StorageWay(_storage(where, found), kafkas, SystemClock())) as stored:
        yield stored


def _storage(where: Where, found: Config | None) -> StoragePlace:
    assert where.worker_config is not None  # the declarations see to it
    return storage_of(
        where.worker_config,
        kafka=_kafka(where, found),
        kafka_name=where.kafka,
        flow=where.flow,
        progress=bar(),
    )


def _kafka(where: Where, found: Config | None) -> Kafka | None:
    if where.kafka is None:
        return None
    assert found is not None  # the declarations see to it
    if where.kafka not in found.kafka:
        raise ConfigError(
            (f"--kafka: no cluster {where.kafka} (known: {told(found.kafka) or 'none'})",)
        )
    return found.kafka[where.kafka]
