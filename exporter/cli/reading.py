"""Where the toolbox's verbs read: a place is opened as the options say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from exporter import config
from exporter.cli.asked import Where
from exporter.cli.bar import bar
from exporter.clock import SystemClock
from exporter.config import Config, Connect, Kafka
from exporter.errors import ConfigError
from exporter.toolbox.facts import Kafkas
from exporter.toolbox.place import Progress
from exporter.toolbox.storage_place import StoragePlace, storage_of
from exporter.toolbox.ways import RestWay, StorageWay
from exporter.toolbox.words import nearest, told
from exporter.toolbox.worker_config import mirror_clusters


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
    with bar("reading records") as drawn:
        place = _storage(where, found, drawn)
        with closing(StorageWay(place, kafkas, SystemClock())) as stored:
            yield stored


def _storage(where: Where, found: Config | None, progress: Progress | None) -> StoragePlace:
    assert where.worker_config is not None  # the declarations see to it
    return storage_of(
        where.worker_config,
        kafka=_kafka(where, found),
        kafka_name=where.kafka,
        flow=where.flow,
        progress=progress,
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
