"""What is killed: each case is one verb on a connector of its own, and tells how that ended."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from lab.cluster.connect_client import ConnectApi
from lab.cluster.connector_configs import SOLO_SOURCE, SOLO_TOPIC, file_source
from lab.cluster.lab import Lab
from lab.cluster.standalone_worker import STANDALONE
from lab.kills import sample_connectors
from lab.kills.sample_connectors import Mirror, Pair, Pairs, Sink, Source
from lab.product.toolbox import Toolbox, document
from lab.waiting import NotYet, until

RECORDS: Final = 12
OLD, NEW = "as it was", "as it was to be"
WORKED_S_MAX: Final = 150.0


class Case(ABC):
    """One verb on one connector of its own, in one state: what it changes, and what it has changed.

    Not for use from several threads at once.
    """

    def __init__(self, lab: Lab, toolbox: Toolbox, name: str) -> None:
        self.lab = lab
        self.toolbox = toolbox
        self.name = name

    @abstractmethod
    def begin(self) -> None:
        """Make everything as it is before the verb."""

    @abstractmethod
    def verb(self) -> tuple[str, ...]:
        """The verb and its options."""

    @abstractmethod
    def ended(self) -> str:
        """OLD, NEW, or what was found instead."""

    @property
    def reached(self) -> tuple[str, ...]:
        """The options by which `plan recover` finds journal and place."""
        return ("--config", str(self.toolbox.config))

    def offsets(self) -> Pairs:
        """What Connect shows."""
        return sample_connectors.offsets(self.lab, self.name)

    def file(self, pairs: Sequence[Pair]) -> str:
        """These pairs as a file in KIP-199 JSON."""
        path = self.toolbox.directory / f"{self.name}.json"
        path.write_text(
            document({self.name: [(pair["partition"], pair["offset"]) for pair in pairs]})
        )
        return str(path)


class AtRest(Case):
    """A connector that is paused or stopped, so that its offsets stay where they are put."""

    def __init__(self, lab: Lab, toolbox: Toolbox, at: Mirror | Sink, state: str) -> None:
        super().__init__(lab, toolbox, at.name)
        self.old = at.pairs()
        self.state = state

    @property
    @abstractmethod
    def new(self) -> Pairs:
        """The offsets that the verb sets."""

    def begin(self) -> None:
        """Stopped, set, and then in its state."""
        self.lab.stop_connector(self.name)
        self.lab.alter_offsets(self.name, self.old)
        if self.state == "PAUSED":
            self.lab.pause(self.name, tasks_min=0)

    def ended(self) -> str:
        """By Connect's own account."""
        state = sample_connectors.state(self.lab, self.name)[0]
        results = {OLD: self.old, NEW: self.new}
        for ended, pairs in results.items():
            if (state, self.offsets()) == (self.state, pairs):
                return ended
        return f"{state} at {self.offsets()}"


class Reset(AtRest):
    """`offsets reset` of a stopped MirrorMaker."""

    new: Pairs = []  # noqa: RUF012 - nobody adds to it

    def verb(self) -> tuple[str, ...]:
        return ("offsets", "reset", self.name, *self.toolbox.where, "--yes", "--watch", "0")


class Removal(AtRest):
    """`offsets import` that sets one partition of a paused sink and removes the other."""

    def __init__(self, lab: Lab, toolbox: Toolbox, sink: Sink) -> None:
        super().__init__(lab, toolbox, sink, "PAUSED")
        self.pairs = [sink.pair(0, 3), sink.pair(1, None)]

    @property
    def new(self) -> Pairs:
        """One is left."""
        return self.pairs[:1]

    def verb(self) -> tuple[str, ...]:
        file = self.file(self.pairs)
        return (
            "offsets",
            "import",
            "--offsets",
            file,
            *self.toolbox.where,
            "--yes",
            "--watch",
            "0",
        )


class Rewind(Case):
    """`offsets import` that sets a MirrorMaker back while it runs: how often records were copied
    tells how it ended.
    """

    POSITION: Final = 4

    def __init__(self, lab: Lab, toolbox: Toolbox, mirror: Mirror) -> None:
        super().__init__(lab, toolbox, mirror.name)
        self.at = mirror
        self.meant = mirror.meant()
        self.again = {number: held[self.POSITION + 1 :] for number, held in self.meant.items()}
        self.before = mirror.came()

    def begin(self) -> None:
        """All copied, and what was copied until now."""
        self.lab.resume(self.name)
        self.lab.wait_running(self.name)
        sample_connectors.await_recorded(self.lab, self.at)
        self.before = self.at.came()

    def verb(self) -> tuple[str, ...]:
        file = self.file([self.at.pair(number, self.POSITION) for number in self.meant])
        return (
            "offsets",
            "import",
            "--offsets",
            file,
            *self.toolbox.where,
            "--yes",
            "--watch",
            "0",
        )

    def ended(self) -> str:
        """Once it has copied all there is again."""
        if (state := sample_connectors.state(self.lab, self.name)[0]) != "RUNNING":
            return state
        self.lab.wait_running(self.name)
        sample_connectors.await_recorded(self.lab, self.at)
        result = self.at.came()
        more = {number: result[number][len(held) :] for number, held in self.before.items()}
        if not any(more.values()):
            return OLD
        return NEW if more == self.again else f"copied again: {more}"


class Creation(Case):
    """`connectors create` with offsets, where an earlier connector of the name has left its own."""

    def __init__(self, lab: Lab, toolbox: Toolbox, name: str) -> None:
        super().__init__(lab, toolbox, name)
        self.at = Source(lab, name, f"{name}-lines", lab.directory / f"{name}.in")
        self.at.grow(RECORDS)
        lab.create_topic("east", self.at.topic)
        self.config = dict(file_source(self.at.path, topic=self.at.topic))
        self.old_pair = self.at.pair(self.at.after(2))
        self.new_pair = self.at.pair(self.at.after(5))

    def begin(self) -> None:
        """Created, set, deleted."""
        if sample_connectors.absent(self.lab, self.name):
            self.lab.create(self.name, self.config)
            # A stop that meets a connector on its way up can leave it a task's configuration.
            self.lab.wait_running(self.name)
        self.lab.stop_connector(self.name)
        self.lab.reset_offsets(self.name)
        self.lab.alter_offsets(self.name, [self.old_pair])
        self.lab.delete(self.name)

    def verb(self) -> tuple[str, ...]:
        config = self.toolbox.directory / f"{self.name}.config.json"
        config.write_text(json.dumps(self.config))
        return (
            *("connectors", "create", self.name, "--config-file", str(config)),
            *("--initial-offsets", self.file([self.new_pair]), "--initial-state", "stopped"),
            *(*self.toolbox.where, "--yes", "--watch", "0"),
        )

    def ended(self) -> str:
        """What no connector shows is in the topic."""
        if sample_connectors.absent(self.lab, self.name):
            held = sample_connectors.newest(self.lab.east, "connect-offsets")
            results = [json.loads(value) for key, value in held.items() if f'"{self.name}"' in key]
            return OLD if results == [self.old_pair["offset"]] else f"no connector, and {results}"
        state = sample_connectors.state(self.lab, self.name)[0]
        if (state, self.offsets()) == ("STOPPED", [self.new_pair]):
            return NEW
        return f"{state} at {self.offsets()}"


class Stored(Case):
    """`offsets import` into the topic of a Connect cluster whose worker has ended."""

    TOPIC: Final = "other-offsets"

    def __init__(self, lab: Lab, toolbox: Toolbox, source: Source) -> None:
        super().__init__(lab, toolbox, source.name)
        self.at = source
        self.properties = lab.directory / "other.properties"
        self.old, self.new = source.after(RECORDS), source.after(3)

    def begin(self) -> None:
        """By the verb itself, the only one who can."""
        self.toolbox.run(*self._set(self.old))

    def verb(self) -> tuple[str, ...]:
        return self._set(self.new)

    def ended(self) -> str:
        """By a plain reader of the topic."""
        held = sample_connectors.newest(self.lab.east, self.TOPIC)
        results = [json.loads(value) for key, value in held.items() if f'"{self.name}"' in key]
        known = {OLD: [{"position": self.old}], NEW: [{"position": self.new}]}
        return next((ended for ended, group in known.items() if group == results), f"{results}")

    @property
    def reached(self) -> tuple[str, ...]:
        return ("--worker-config", str(self.properties), "--state-dir", str(self.toolbox.state))

    def _set(self, position: int) -> tuple[str, ...]:
        file = self.file([self.at.pair(position)])
        return ("offsets", "import", "--offsets", file, *self.reached, "--yes", "--watch", "0")


class Filed(Stored):
    """`offsets import` into the file of a standalone worker that has ended."""

    def __init__(self, lab: Lab, toolbox: Toolbox) -> None:
        super().__init__(lab, toolbox, Source(lab, SOLO_SOURCE, SOLO_TOPIC, lab.solo.lines))
        self.properties = lab.solo.properties
        self.offsets_file = lab.solo.offsets

    def ended(self) -> str:
        """By the bytes: Java's serialization has those of a value as they are."""
        held = self.offsets_file.read_bytes()
        whole = held.startswith(bytes.fromhex("aced0005")) and held.endswith(b"\x78")
        results = [int(item) for item in re.findall(rb'\{"position":(\d+)\}', held)]
        known = {OLD: [self.old], NEW: [self.new]}
        return next(
            (ended for ended, group in known.items() if group == results and whole), f"{held!r}"
        )


@contextmanager
def cases(lab: Lab, toolbox: Toolbox, expected: Sequence[str]) -> Iterator[dict[str, Case]]:
    """Each verb that is killed, with a connector that it can be tried on."""
    with ExitStack() as stack:
        built: dict[str, Case] = {}
        for kind in expected:
            name = f"kills-{kind}"
            if kind == "rewind":
                mirror = sample_connectors.mirror(lab, name, partitions=3, records=3 * RECORDS)
                built[kind] = Rewind(lab, toolbox, stack.enter_context(mirror))
            elif kind == "reset":
                mirror = sample_connectors.mirror(lab, name, partitions=3, records=3 * RECORDS)
                built[kind] = Reset(lab, toolbox, stack.enter_context(mirror), "STOPPED")
            elif kind == "removal":
                sink = sample_connectors.sink(lab, name, partitions=2, records=2 * RECORDS)
                built[kind] = Removal(lab, toolbox, stack.enter_context(sink))
            elif kind == "creation":
                built[kind] = Creation(lab, toolbox, name)
                stack.callback(_forgotten, lab, name)
            elif kind == "stored":
                built[kind] = Stored(lab, toolbox, _elsewhere(lab, name))
            else:
                built[kind] = _alone(lab, toolbox)
        yield built


KINDS: Final = ("rewind", "reset", "removal", "creation", "stored", "filed")


def _forgotten(lab: Lab, name: str) -> None:
    if not sample_connectors.absent(lab, name):
        sample_connectors.forget(lab, name)


def _alone(lab: Lab, toolbox: Toolbox) -> Filed:
    """The standalone worker's source, after its worker has ended."""
    source = Source(lab, SOLO_SOURCE, SOLO_TOPIC, lab.solo.lines)
    source.grow(RECORDS)
    sample_connectors.written(lab.solo.sink, RECORDS)
    lab.terminate(STANDALONE)
    return Filed(lab, toolbox)


def _elsewhere(lab: Lab, name: str) -> Source:
    """A source on the second Connect cluster, whose worker is then ended."""
    source = Source(lab, name, f"{name}-lines", lab.directory / f"{name}.in")
    source.grow(RECORDS)
    lab.create_topic("east", source.topic)
    api = ConnectApi((lab.other_url,))
    try:
        api.create(name, file_source(source.path, topic=source.topic))

        def probe() -> None:
            if api.offsets(name) != source.pairs():
                raise NotYet("no commit")

        until(f"{name} settled", probe, timeout_s=WORKED_S_MAX)
    finally:
        api.close()
    lab.terminate("other")
    return source
