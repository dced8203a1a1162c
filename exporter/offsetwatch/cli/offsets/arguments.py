"""Arguments of the `offsets` verbs, as they were typed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


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
    def one_place(self) -> bool:
        """Return whether one store was named, and not all Connect clusters of the configuration."""
        return not (self.connect is None and self.worker_config is None and self.strimzi is None)

    @property
    def options(self) -> str:
        """Return the options that a further command needs to reach the same store."""
        named = (
            ("--connect", self.connect),
            ("--config", self.config_path),
            ("--worker-config", self.worker_config),
            ("--kafka", self.kafka),
            ("--flow", self.flow),
            ("--strimzi", self.strimzi),
            ("--kubeconfig", self.kubeconfig),
        )
        given = [(option, str(value)) for option, value in named if value is not None]
        words = [word for pair in given for word in pair]
        return shlex.join([*words, *(["--even-if-gitops"] if self.even_if_gitops else [])])


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """A document of offsets, and how to read it.

    document    its path; `-` or None for standard input
    connectors  only these, by their new names; None for all
    """

    document: Path | None
    connectors: frozenset[str] | None = None
    rename: tuple[tuple[str, str], ...] = ()
    rename_alias: tuple[tuple[str, str], ...] = ()

    @property
    def from_stdin(self) -> bool:
        """Return whether standard input has the document, so that nothing can be typed there."""
        return self.document is None or str(self.document) == "-"


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Options of a change of offsets; `--help` of the verbs describes them."""

    dry_run: bool
    yes: bool
    state_dir: Path | None
    timeout_s: float
    allow_new: bool


@dataclass(frozen=True, slots=True)
class FlowResetOptions:
    """Target of a flow reset as it was typed.

    At most one of to_offset, to_time and by is set; with none the flow restarts at each log's
    start.

    flow        `A->B`
    topics      upstream; None for all
    more        the first option that was given besides --flow, for a message
    """

    flow: str
    aliases: tuple[str, str]
    to_offset: int | None
    to_time: str | None
    by: str | None
    topics: frozenset[str] | None
    clear_syncs: bool
    allow_skip: bool
    more: str = ""
