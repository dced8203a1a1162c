"""Openers of the offset store that the options of an `offsets` verb name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from offsetwatch import config
from offsetwatch.cli.common.progress_bar import show_progress
from offsetwatch.cli.offsets.arguments import OffsetStoreOptions
from offsetwatch.clients.kubernetes.access import find_kubernetes_access
from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.drivers.strimzi.operator import OPERATION_S
from offsetwatch.toolbox.connector_facts import KafkaClusterPool
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.store.rest import RestOffsetStore
from offsetwatch.toolbox.store.strimzi import StrimziConnectCluster, StrimziOffsetStore
from offsetwatch.toolbox.store.worker_config import read_mirror_clusters
from offsetwatch.toolbox.store.worker_storage import open_worker_storage
from offsetwatch.toolbox.suggestions import format_names, suggest_name


def load_optional_config(where: OffsetStoreOptions) -> Config | None:
    """Return the configuration; None if no file is named. Raises ConfigError."""
    return None if where.config_path is None else config.load(where.config_path)


def find_connect(loaded: Config, name: str) -> Connect:
    """Return the Connect cluster of this name. Raises ConfigError with the known names."""
    names = [connect.name for connect in loaded.connect]
    for connect in loaded.connect:
        if connect.name == name:
            return connect
    right = suggest_name(name, names, "known")
    raise ConfigError((f"--connect: no Connect cluster {name} ({right})",))


@contextmanager
def open_offset_store(
    where: OffsetStoreOptions, *, wait_s: float = OPERATION_S
) -> Iterator[OffsetStore]:
    """Yield the offset store that the options name. Raises ConfigError.

    `wait_s` is the time limit for Strimzi's operator.
    """
    found = load_optional_config(where)
    if where.strimzi is not None:
        with closing(_open_strimzi_store(where, found, wait_s)) as through:
            yield through
        return
    if where.connect is not None:
        assert found is not None  # the declarations see to it
        with closing(RestOffsetStore(found, find_connect(found, where.connect))) as store:
            yield store
        return
    assert where.worker_config is not None  # the declarations see to it
    kafkas = KafkaClusterPool(
        read_mirror_clusters(where.worker_config) if found is None else found.kafka
    )
    with show_progress("reading records") as progress:
        stored = open_worker_storage(
            where.worker_config,
            kafkas,
            kafka=_find_kafka(where, found),
            kafka_name=where.kafka,
            flow=where.flow,
            progress=progress,
        )
        with closing(stored):
            yield stored


def _open_strimzi_store(
    where: OffsetStoreOptions, found: Config | None, wait_s: float
) -> StrimziOffsetStore:
    assert where.strimzi is not None
    namespace, _, name = where.strimzi.partition("/")
    linked = None if found is None else find_linked_connect(found, namespace, name)
    kubeconfig = where.kubeconfig
    if kubeconfig is None and linked is not None and linked.strimzi is not None:
        kubeconfig = linked.strimzi.kubeconfig_file
    home = where.kafka or (None if linked is None else linked.kafka)
    if where.kafka is not None:
        _find_kafka(where, found)  # there is one of this name
    cluster = StrimziConnectCluster(
        namespace,
        name,
        lock=where.strimzi if linked is None else linked.name,
        wait_s=wait_s,
        home=home,
    )
    return StrimziOffsetStore(
        find_kubernetes_access(kubeconfig),
        cluster,
        KafkaClusterPool({} if found is None else found.kafka),
        even_if_gitops=where.even_if_gitops,
    )


def find_linked_connect(found: Config, namespace: str, name: str) -> Connect | None:
    """Return the entry under connect that names this Strimzi resource; None if there is none."""
    for connect in found.connect:
        strimzi = connect.strimzi
        if strimzi is not None and (strimzi.namespace, strimzi.name) == (namespace, name):
            return connect
    return None


def _find_kafka(where: OffsetStoreOptions, found: Config | None) -> Kafka | None:
    if where.kafka is None:
        return None
    assert found is not None  # the declarations see to it
    if where.kafka not in found.kafka:
        raise ConfigError(
            (f"--kafka: no cluster {where.kafka} (known: {format_names(found.kafka) or 'none'})",)
        )
    return found.kafka[where.kafka]
