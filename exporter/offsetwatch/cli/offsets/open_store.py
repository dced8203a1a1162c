"""Where the toolbox's verbs read: a place is opened as the options say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from offsetwatch import config
from offsetwatch.cli.common.progress_bar import bar
from offsetwatch.cli.offsets.arguments import Where
from offsetwatch.clients.kubernetes.access import access_of
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.drivers.strimzi.operator import OPERATION_S
from offsetwatch.toolbox.connector_facts import Kafkas
from offsetwatch.toolbox.store.changes import RestWay, StorageWay
from offsetwatch.toolbox.store.reader import Progress
from offsetwatch.toolbox.store.strimzi import Site, StrimziPlace
from offsetwatch.toolbox.store.strimzi_changes import StrimziWay
from offsetwatch.toolbox.store.worker_config import mirror_clusters
from offsetwatch.toolbox.store.worker_storage import StoragePlace, storage_of
from offsetwatch.toolbox.suggestions import nearest, told

AnyWay = RestWay | StorageWay | StrimziWay


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
def way_of(where: Where, *, wait_s: float = OPERATION_S) -> Iterator[AnyWay]:
    """The way that the options name; `wait_s` is for Strimzi's operator. Raises ConfigError."""
    found = loaded(where)
    if where.strimzi is not None:
        with closing(_strimzi(where, found, wait_s)) as through:
            yield through
        return
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


def _strimzi(where: Where, found: Config | None, wait_s: float) -> StrimziWay:
    assert where.strimzi is not None
    namespace, _, name = where.strimzi.partition("/")
    linked = None if found is None else linked_to(found, namespace, name)
    kubeconfig = where.kubeconfig
    if kubeconfig is None and linked is not None and linked.strimzi is not None:
        kubeconfig = linked.strimzi.kubeconfig_file
    home = where.kafka or (None if linked is None else linked.kafka)
    if where.kafka is not None:
        _kafka(where, found)  # there is one of this name
    site = Site(
        namespace, name, lock=where.strimzi if linked is None else linked.name, wait_s=wait_s
    )
    place = StrimziPlace(access_of(kubeconfig), site, even_if_gitops=where.even_if_gitops)
    return StrimziWay(place, Kafkas({} if found is None else found.kafka), home)


def linked_to(found: Config, namespace: str, name: str) -> Connect | None:
    """The entry that says that this resource of Strimzi runs it."""
    for connect in found.connect:
        at = connect.strimzi
        if at is not None and (at.namespace, at.name) == (namespace, name):
            return connect
    return None


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
