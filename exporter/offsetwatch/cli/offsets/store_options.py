"""Options that name an offset store, without the clients that reach one."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offsetwatch.errors import ConfigError
from offsetwatch.toolbox.suggestions import suggest_name

if TYPE_CHECKING:
    from offsetwatch.config import Config, Connect


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
        if where.config_path is not None:
            from offsetwatch.config import load  # noqa: PLC0415 - the schema

            names = ", ".join(connect.name for connect in load(where.config_path).connect)
            raise ConfigError((f"--connect: name the Connect cluster, of: {names}",))
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


def find_connect(loaded: Config, name: str) -> Connect:
    """Return the Connect cluster of this name. Raises ConfigError with the known names."""
    names = [connect.name for connect in loaded.connect]
    for connect in loaded.connect:
        if connect.name == name:
            return connect
    right = suggest_name(name, names, "known")
    raise ConfigError((f"--connect: no Connect cluster {name} ({right})",))
