"""What the options of the toolbox's verbs say, as it was given."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class OffsetStoreOptions:
    """One Connect cluster over REST, the storage that a worker's properties file names, or the
    resources of Strimzi.

    kafka   the configured cluster as which the storage is reached, if not as that file says
    flow    `A->B`: of a MirrorMaker's file that has several
    strimzi `NAMESPACE/NAME` of a KafkaConnect or KafkaMirrorMaker2: through the operator
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
        """Whether one place was named."""
        return not (self.connect is None and self.worker_config is None and self.strimzi is None)

    @property
    def options(self) -> str:
        """To be added to a command that is to reach the same."""
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
    """A document, and how it is to be read.

    document    its path, `-` or None for standard input
    connectors  only these, by their new names
    """

    document: Path | None
    connectors: frozenset[str] | None = None
    rename: tuple[tuple[str, str], ...] = ()
    rename_alias: tuple[tuple[str, str], ...] = ()

    @property
    def from_stdin(self) -> bool:
        """Then nothing can be typed there."""
        return self.document is None or str(self.document) == "-"


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """How a change is to be made. See `--help` of any."""

    dry_run: bool
    yes: bool
    state_dir: Path | None
    timeout_s: float
    allow_new: bool


@dataclass(frozen=True, slots=True)
class FlowResetOptions:
    """Where a replication flow is to go on, as it was typed; at most one of the three, none for the
    start of each log.

    flow        `A->B`
    topics      upstream; None for all
    more        the first option that was given beside --flow, for a message
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
