"""Options that name an offset store, and the opener of the store that they name."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from offsetwatch import config
from offsetwatch.cli.common.live_output import show_progress
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
from offsetwatch.toolbox.suggestions import format_names, suggest_name


@dataclass(frozen=True, slots=True)
class OffsetStoreOptions:
    """Options that name an offset store.

    It is a Connect cluster over REST, the storage of a worker's properties file, or Strimzi
    resources.

    kafka    the configured Kafka cluster of the storage; None: as the worker's file has it
    flow     `A->B`, for a MirrorMaker's file that has several
    strimzi  `NAMESPACE/NAME` of a KafkaConnect or KafkaMirrorMaker2: through the operator
    """

    connect: str | None
    config_path: Path | None
    worker_config: Path | None
    kafka: str | None = None
    flow: str | None = None
    strimzi: str | None = None
    kubeconfig: Path | None = None
    even_if_gitops: bool = False

    @property
    def options(self) -> str:
        """Return the options that a further command needs to reach the same store."""
        named = {
            "--connect": self.connect,
            "--config": self.config_path,
            "--worker-config": self.worker_config,
            "--kafka": self.kafka,
            "--flow": self.flow,
            "--strimzi": self.strimzi,
            "--kubeconfig": self.kubeconfig,
        }
        words = [
            word
            for option, value in named.items()
            if value is not None
            for word in (option, str(value))
        ]
        return shlex.join([*words, *(["--even-if-gitops"] if self.even_if_gitops else [])])


def take_store_options(options: dict[str, Any], *, everywhere: bool = False) -> OffsetStoreOptions:
    """Remove the store's options from `options` and return them. Raises UsageError on conflicts.

    everywhere  without a store, all Connect clusters of the configuration are meant
    """
    where = OffsetStoreOptions(
        **{field.name: options.pop(field.name) for field in fields(OffsetStoreOptions)}
    )
    if where.strimzi is not None:
        return _check_strimzi_options(where)
    if where.kubeconfig is not None or where.even_if_gitops:
        raise click.UsageError("--kubeconfig and --even-if-gitops go with --strimzi")
    if where.connect is not None and where.worker_config is not None:
        raise click.UsageError("--connect or --worker-config, not both")
    if where.connect is None and where.worker_config is None and not everywhere:
        raise click.UsageError(
            "say where: --connect NAME --config F, --worker-config F, or --strimzi NAMESPACE/NAME"
        )
    if where.worker_config is None and where.config_path is None:
        raise click.UsageError("--config is missing: the YAML file with the Connect cluster")
    if where.worker_config is None and where.kafka is not None:
        raise click.UsageError("--kafka goes with --worker-config")
    if where.kafka is not None and where.config_path is None:
        raise click.UsageError("--kafka names a cluster of --config")
    if where.flow is not None:
        parse_aliases(where.flow)
    return where


def _check_strimzi_options(where: OffsetStoreOptions) -> OffsetStoreOptions:
    namespace, slash, name = str(where.strimzi).partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.UsageError("--strimzi NAMESPACE/NAME: of the KafkaConnect or KafkaMirrorMaker2")
    if where.connect is not None or where.worker_config is not None:
        raise click.UsageError("--connect, --worker-config or --strimzi: one of them")
    if where.flow is not None:
        raise click.UsageError(
            "--flow goes with --connect or --worker-config; with --strimzi name its connectors, as "
            f"in {where.flow}.MirrorSourceConnector"
        )
    if where.kafka is not None and where.config_path is None:
        raise click.UsageError("--kafka names a cluster of --config")
    return where


def parse_aliases(flow: str) -> tuple[str, str]:
    """Return the aliases of `A->B`. Raises UsageError for anything else.

    One alias may be empty, as source.cluster.alias is where topics keep their names.
    """
    source, arrow, target = flow.partition("->")
    if not arrow or not (source or target):
        raise click.UsageError(f"--flow {flow}: two aliases, as in west->east")
    return source, target


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
