"""Opener of the offset store that options name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from offsetwatch import config
from offsetwatch.cli.common.live_output import show_progress
from offsetwatch.cli.offsets.store_options import OffsetStoreOptions, find_connect
from offsetwatch.clients.kubernetes.access import find_kubernetes_access
from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.drivers.strimzi.operator import OPERATION_S
from offsetwatch.toolbox.connector_facts import KafkaClusterPool
from offsetwatch.toolbox.source_pool import SourcePool
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.store.rest import RestOffsetStore
from offsetwatch.toolbox.store.strimzi import StrimziConnectCluster, StrimziOffsetStore
from offsetwatch.toolbox.store.worker_config import read_mirror_clusters
from offsetwatch.toolbox.store.worker_storage import open_worker_storage
from offsetwatch.toolbox.suggestions import explain_offsets_name, format_names, suggest_name


def load_optional_config(where: OffsetStoreOptions) -> Config | None:
    """Return the configuration; None if no file is named. Raises ConfigError."""
    return None if where.config_path is None else config.load(where.config_path)


@contextmanager
def open_offset_store(
    where: OffsetStoreOptions, *, wait_s: float = OPERATION_S
) -> Iterator[OffsetStore]:
    """Yield the offset store that the options name. Raises ConfigError.

    `wait_s` is the time limit for Strimzi's operator.
    """
    loaded = load_optional_config(where)
    with ExitStack() as stack:
        store: OffsetStore
        if where.strimzi is not None:
            store = _open_strimzi_store(where, loaded, wait_s)
        elif where.connect is not None:
            assert loaded is not None  # the declarations see to it
            store = RestOffsetStore(loaded, find_connect(loaded, where.connect))
        else:
            assert where.worker_config is not None  # the declarations see to it
            clusters = read_mirror_clusters(where.worker_config) if loaded is None else loaded.kafka
            store = open_worker_storage(
                where.worker_config,
                KafkaClusterPool(clusters),
                sources=SourcePool(() if loaded is None else loaded.sources),
                kafka=_find_kafka(where, loaded),
                kafka_name=where.kafka,
                flow=where.flow,
                progress=stack.enter_context(show_progress("reading records")),
            )
        yield stack.enter_context(closing(store))


def require_connector(store: OffsetStore, connector: str) -> None:
    """Raise ConfigError, with the nearest or existing names, if the store has no such connector."""
    names = store.connectors()
    if connector not in names:
        right = suggest_name(connector, names) + explain_offsets_name(connector)
        raise ConfigError((f"{store.name}: no connector {connector} ({right})",))


def _open_strimzi_store(
    where: OffsetStoreOptions, loaded: Config | None, wait_s: float
) -> StrimziOffsetStore:
    assert where.strimzi is not None
    _find_kafka(where, loaded)  # there is one of this name
    namespace, _, name = where.strimzi.partition("/")
    linked = None if loaded is None else find_linked_connect(loaded, namespace, name)
    kubeconfig = where.kubeconfig
    if kubeconfig is None and linked is not None and linked.strimzi is not None:
        kubeconfig = linked.strimzi.kubeconfig_file
    cluster = StrimziConnectCluster(
        namespace,
        name,
        lock=where.strimzi if linked is None else linked.name,
        wait_s=wait_s,
        home=where.kafka or (None if linked is None else linked.kafka),
    )
    return StrimziOffsetStore(
        find_kubernetes_access(kubeconfig),
        cluster,
        KafkaClusterPool({} if loaded is None else loaded.kafka),
        even_if_gitops=where.even_if_gitops,
        sources=SourcePool(
            () if loaded is None else loaded.sources, None if linked is None else linked.name
        ),
    )


def find_linked_connect(loaded: Config, namespace: str, name: str) -> Connect | None:
    """Return the entry under connect that names this Strimzi resource; None if there is none."""
    for connect in loaded.connect:
        strimzi = connect.strimzi
        if strimzi is not None and (strimzi.namespace, strimzi.name) == (namespace, name):
            return connect
    return None


def _find_kafka(where: OffsetStoreOptions, loaded: Config | None) -> Kafka | None:
    if where.kafka is None:
        return None
    assert loaded is not None  # the declarations see to it
    if where.kafka not in loaded.kafka:
        known = format_names(loaded.kafka) or "none"
        raise ConfigError((f"--kafka: no cluster {where.kafka} (known: {known})",))
    return loaded.kafka[where.kafka]
