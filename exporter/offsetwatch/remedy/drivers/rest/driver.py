"""Driver that changes one connector of a Connect cluster over REST (KIP-875, KIP-980).

Its memory between calls only saves requests: after a restart it reads the state again, and every
request may be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import chain
from typing import Any, Final

from offsetwatch.clients.http.exchange import Transport
from offsetwatch.clients.kafka.whole_topic import StorageAdmin
from offsetwatch.clients.write.connect import ConnectReply, writer_of
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Connect, Kafka
from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.decode.rest_answers import format_config_texts
from offsetwatch.errors import AccessDenied, ClientError, Conflict, NotFound
from offsetwatch.model.topology import is_provided
from offsetwatch.remedy.drivers.common_steps import (
    QUIET_S,
    QuietPeriod,
    check_expected_offsets,
    compare_offsets,
)
from offsetwatch.remedy.drivers.storage import TopicStorage, inspect_write
from offsetwatch.remedy.engine.requests import build_step_request
from offsetwatch.remedy.gather.live_queries import (
    ConnectClient,
    RestConnectorState,
    compute_config_sha256,
    parse_kafka_version,
)
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    DeleteTopic,
    Expect,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    RequestedState,
    Reset,
    Restart,
    Settle,
    ToState,
    Watch,
    Write,
)
from offsetwatch.remedy.model.stored_offsets import OffsetStoreContents, list_raw_records

RESTART_S: Final = 10.0  # so long a restart may take to show: until then a failure is the old one
IDLE_S: Final = 30.0  # a connector that runs without tasks for so long has none to run
CREATE_STOPPED_SINCE: Final = (3, 7)  # KIP-980

_UNSUPPORTED_STEP = StepInspection(StepStatus.IMPOSSIBLE, "this cannot be done over REST")


class RestDriver:
    """Driver for one connector over REST.

    create_config   configuration for the Create step of the plan
    offsets_topics  topics that a plan writes to: `offsets` then includes the connector's records in
                    them
    transport       for tests: replaces the network
    """

    def __init__(
        self,
        connect: Connect,
        connector: str,
        kafka: Kafka | None,
        *,
        create_config: Mapping[str, Any] | None = None,
        offsets_topics: tuple[str, ...] = (),
        clock: UnixClock | None = None,
        transport: Transport | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._connector = connector
        self._connect, self._kafka = connect, kafka
        self._kafka_unavailable = False
        self._offsets_topics = offsets_topics
        self._client = ConnectClient(connect, transport=transport)
        self._writer = writer_of(connect, transport=transport, check=check)
        self._create_config = create_config
        self._clock = SteadyClock() if clock is None else clock
        self._requested_at: dict[AnyStep, float] = {}
        self._quiet = QuietPeriod(self._clock)
        self._watched_at: float | None = None
        self._runs_at: float | None = None
        self._has_run = False
        self._set_pairs: tuple[PartitionOffset, ...] = ()

    def identity(self) -> str | None:
        """Return the id of the workers' Kafka cluster, from `GET /`."""
        return self._client.root().kafka_cluster_id

    def offsets(self) -> DriverOffsets:
        """Return the offsets that Connect would pass to tasks, without null offsets."""
        pairs = self._client.pairs(self._connector)
        records = [
            list_raw_records(self._contents(topic), self._connector)
            for topic in self._offsets_topics
        ]
        return DriverOffsets(pairs, tuple(chain.from_iterable(records)))

    def _contents(self, topic: str) -> OffsetStoreContents:
        with closing(self._open_storage(topic)) as storage:
            return storage.contents()

    def _open_storage(self, topic: str) -> TopicStorage:
        """Open the offsets topic of a connector that is stopped, so that no task writes to it."""
        assert self._kafka is not None, "who plans to write to a topic can reach it"
        return TopicStorage(
            self._connect.home, self._kafka.client_properties(), topic, workers=None
        )

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    # --- inspections ------------------------------------------------------------------------------

    def inspect(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """Inspect a step: NOT_YET during a rebalance, FOREIGN if the connector is gone."""
        if isinstance(step, DeleteTopic) or (isinstance(step, Write) and self._kafka is None):
            return _UNSUPPORTED_STEP
        try:
            return self._inspect_step(step, frozen)
        except Conflict as exc:
            return StepInspection(StepStatus.NOT_YET, f"Connect rebalances: {exc.detail}")
        except NotFound:
            if self._exists():  # raises where the 404 came from a worker that is still starting
                raise
            return StepInspection(
                StepStatus.FOREIGN, f"there is no connector {self._connector} any more"
            )

    def _inspect_step(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        match step:
            case ToState(state=state):
                return self._inspect_state(step, state, self._client.read_state(self._connector))
            case Settle(quiet_s=quiet_s):
                return self._inspect_quiet(QUIET_S if quiet_s is None else quiet_s)
            case Write(pairs=()):
                return self._inspect_records(step, frozen)
            case Alter(pairs=pairs) | Write(pairs=pairs):
                return self._inspect_offsets(pairs, frozen)
            case Reset():
                return self._inspect_offsets(None, frozen)
            case Create():
                return self._inspect_creation(step)
            case Delete():
                return self._inspect_deletion(step)
            case Restart():
                return self._inspect_restart(step)
            case Watch(quiet_s=quiet_s):
                return self._inspect_run(quiet_s)
            case Expect(pairs=pairs):
                return check_expected_offsets(self._client.pairs(self._connector), pairs)
            case Freeze():
                return StepInspection(StepStatus.READY, "offsets can be read")
            case _:
                return _UNSUPPORTED_STEP

    def _inspect_state(
        self, step: AnyStep, state: RequestedState, connector: RestConnectorState | None
    ) -> StepInspection:
        if connector is None:
            return StepInspection(StepStatus.NOT_YET, "no worker has said anything of it yet")
        said = _describe_state(connector)
        requested_at = self._requested_at.get(step)
        match state:
            case RequestedState.STOPPED:
                return StepInspection(_check_stopped(connector), said)
            case RequestedState.PAUSED:
                done = connector.status.state == "paused" or (
                    requested_at is not None and connector.status.state == "failed"
                )
                still = {"running", "restarting", "unassigned"} & set(connector.status.tasks)
                if not done and requested_at is None:
                    return StepInspection(StepStatus.READY, said)
                return StepInspection(
                    StepStatus.NOT_YET if still or not done else StepStatus.DONE, said
                )
        return self._inspect_running(connector, said, requested_at)

    def _inspect_running(
        self, connector: RestConnectorState, said: str, requested_at: float | None
    ) -> StepInspection:
        """Inspect a resume: DONE also if the connector has failed since it was requested."""
        state, tasks = connector.status.state, connector.status.tasks
        if state in {"paused", "stopped"} or (state == "failed" and requested_at is None):
            return StepInspection(StepStatus.READY, said)
        if state not in {"running", "failed"}:
            return StepInspection(StepStatus.NOT_YET, said)
        if state == "running" and not connector.configured:
            # Either they are worked out just now, or a stop that ended halfway has left it so, or
            # there is nothing to do for it.
            if requested_at is None:
                return StepInspection(StepStatus.PARTLY, said)
            idle = self._clock.now() - requested_at
            return StepInspection(StepStatus.DONE if idle >= IDLE_S else StepStatus.NOT_YET, said)
        there = len(tasks) >= connector.configured and set(tasks) <= {"running", "failed"}
        return StepInspection(
            StepStatus.DONE if there or state == "failed" else StepStatus.NOT_YET, said
        )

    def _inspect_quiet(self, required_s: float) -> StepInspection:
        connector = self._client.read_state(self._connector)
        if connector is None or connector.status.state != "stopped":
            return StepInspection(
                StepStatus.FOREIGN, f"it is no longer stopped: {_describe_state(connector)}"
            )
        members = self._members() if connector.status.kind == "sink" else ()
        if members:
            self._quiet.restart()
            return StepInspection(
                StepStatus.NOT_YET, f"still in its group: {', '.join(members[:3])}"
            )
        return self._quiet.inspect(self._client.pairs(self._connector), required_s)

    def _members(self) -> tuple[str, ...] | None:
        """Return the consumers that are still in a sink's group; None if that is unknown.

        A worker checks for members itself when it alters a sink's offsets.
        """
        if self._kafka is None:
            return None
        config: Mapping[Any, Any] = self._client.config(self._connector)
        sink = parse_connector_settings(self._connector, config, kind="sink").sink
        if (
            self._kafka_unavailable
            or sink is None
            or is_provided(sink.group)
            or (sink.addresses and not sink.addresses & self._kafka.addresses)
        ):
            return None
        try:
            properties = self._kafka.client_properties()
            with closing(StorageAdmin(self._connect.home, properties)) as admin:
                return admin.members(sink.group)
        except ClientError:
            self._kafka_unavailable = True  # queried at every inspection, it would take as long
            return None

    def _inspect_offsets(
        self, target: tuple[PartitionOffset, ...] | None, frozen: FrozenOffsets | None
    ) -> StepInspection:
        now = self._client.pairs(self._connector)
        return self._require_stopped(compare_offsets(now, frozen, target))

    def _inspect_records(self, step: Write, frozen: FrozenOffsets | None) -> StepInspection:
        contents = self._contents(_parse_topic(step))
        return self._require_stopped(inspect_write(contents, self._connector, step, frozen))

    def _require_stopped(self, inspection: StepInspection) -> StepInspection:
        """Return the inspection, or FOREIGN if another client has resumed the connector."""
        if inspection.status not in {StepStatus.READY, StepStatus.PARTLY}:
            return inspection
        connector = self._client.read_state(self._connector)
        said = _describe_state(connector)
        stopped = StepStatus.NOT_YET if connector is None else _check_stopped(connector)
        if stopped is StepStatus.NOT_YET:
            return StepInspection(StepStatus.NOT_YET, said)
        if stopped is not StepStatus.DONE:
            return StepInspection(StepStatus.FOREIGN, f"it is no longer stopped: {said}")
        return inspection

    def _inspect_creation(self, step: Create) -> StepInspection:
        if self._exists():
            if self._has_other_config(step.config_sha256):
                return StepInspection(StepStatus.FOREIGN, "it is there with another configuration")
            return StepInspection(StepStatus.DONE, "it is there")
        config = self._create_config
        if config is None:
            said = "its configuration has to be given again"
            return StepInspection(StepStatus.IMPOSSIBLE, said)
        if compute_config_sha256(self._connector, config) != step.config_sha256:
            said = "this is not the configuration that was planned"
            return StepInspection(StepStatus.IMPOSSIBLE, said)
        return StepInspection(StepStatus.READY, "it is not there")

    def _inspect_deletion(self, step: Delete) -> StepInspection:
        if not self._exists():
            return StepInspection(StepStatus.DONE, "it is gone")
        if step.config_sha256 is not None and self._has_other_config(step.config_sha256):
            said = "it is there with another configuration: not ours"
            return StepInspection(StepStatus.FOREIGN, said)
        return StepInspection(StepStatus.READY, "it is there")

    def _has_other_config(self, sha256: str) -> bool:
        config = self._client.config(self._connector)
        return compute_config_sha256(self._connector, config) != sha256

    def _inspect_restart(self, step: Restart) -> StepInspection:
        connector = self._client.read_state(self._connector)
        said = _describe_state(connector)
        if step not in self._requested_at:
            return StepInspection(StepStatus.READY, said)
        busy = connector is None or {"restarting", "unassigned"} & _list_states(connector)
        return StepInspection(StepStatus.NOT_YET if busy else StepStatus.DONE, said)

    def _inspect_run(self, required_s: float) -> StepInspection:
        """Inspect whether the connector runs without failing for the required time.

        A failure is FOREIGN once the connector has run or RESTART_S have passed; before, it may be
        the earlier failure. A connector that is paused or stopped is DONE: that is its earlier
        state, or another client's request.
        """
        connector, now = self._client.read_state(self._connector), self._clock.now()
        said = _describe_state(connector)
        self._watched_at = now if self._watched_at is None else self._watched_at
        if connector is None:
            return StepInspection(StepStatus.NOT_YET, said)
        if connector.status.state in {"stopped", "paused"}:
            return StepInspection(StepStatus.DONE, said)
        if "failed" in _list_states(connector):
            self._runs_at = None
            if self._has_run or now - self._watched_at >= RESTART_S:
                return StepInspection(StepStatus.FOREIGN, f"it failed again: {said}")
            return StepInspection(StepStatus.NOT_YET, f"{said}, perhaps from before")
        self._has_run = True
        starting = len(connector.status.tasks) < connector.configured
        if starting or _list_states(connector) != {"running"}:
            self._runs_at = None
            return StepInspection(StepStatus.NOT_YET, said)
        self._runs_at = now if self._runs_at is None else self._runs_at
        ran_s = now - self._runs_at
        if ran_s < (required_s if connector.configured else max(required_s, IDLE_S)):
            return StepInspection(
                StepStatus.NOT_YET, f"{said}; it is watched for {required_s:.0f} s"
            )
        return StepInspection(
            StepStatus.DONE, f"{said}, for {ran_s:.0f} s{self._describe_commits()}"
        )

    def _describe_commits(self) -> str:
        """Return whether the tasks have committed other offsets than this driver has set."""
        if not self._set_pairs:
            return ""
        now = {pair.partition: pair.offset for pair in self._client.pairs(self._connector)}
        if any(now.get(pair.partition) != pair.offset for pair in self._set_pairs):
            return ", and it has committed since"
        return "; it has committed nothing else yet"

    def _exists(self) -> bool:
        return any(connector.name == self._connector for connector in self._client.connectors())

    # --- changes ----------------------------------------------------------------------------------

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Send the step's single request.

        Raises TargetUnreachable and AccessDenied if it had no effect, and AmbiguousOutcome.
        """
        del frozen
        outcome = self._carry_out(step)
        if outcome.answer is AttemptResult.ACK:
            self.mark_requested(step)
            if isinstance(step, Alter):
                self._set_pairs = step.pairs
        return outcome

    def mark_requested(self, step: AnyStep) -> None:
        """Record that Connect received this request just now, from this driver or on its behalf."""
        self._requested_at.setdefault(step, self._clock.now())

    def _carry_out(self, step: AnyStep) -> Outcome:
        match step:
            case ToState(state=state):
                done = 204 if state is RequestedState.STOPPED else 202
                return classify_request_reply(self._send_step(step), done=frozenset({done}))
            case Alter() | Reset():
                return classify_offsets_reply(self._send_step(step))
            case Create():
                return self._create()
            case Delete():
                return classify_request_reply(self._send_step(step), done=frozenset({204}))
            case Restart():
                return classify_request_reply(self._send_step(step), done=frozenset({202, 204}))
            case Write():
                return self._write(step)
            case Settle() | Freeze() | Watch():
                return Outcome(AttemptResult.ACK, "nothing to request")
        return Outcome(AttemptResult.NACK, _UNSUPPORTED_STEP.said)

    def _send_step(self, step: AnyStep) -> ConnectReply:
        request = build_step_request(self._connector, step)
        assert request is not None
        return self._require_access(self._writer.send(*request))

    def _write(self, step: Write) -> Outcome:
        """Write to the topic directly, if the connector is still stopped.

        Another client may have resumed it since the inspection.
        """
        if self._kafka is None:
            return Outcome(AttemptResult.NACK, _UNSUPPORTED_STEP.said)
        connector = self._client.read_state(self._connector)
        if connector is None or _check_stopped(connector) is not StepStatus.DONE:
            said = f"nothing was written: it is no longer stopped: {_describe_state(connector)}"
            return Outcome(AttemptResult.NACK, said)
        with closing(self._open_storage(_parse_topic(step))) as storage:
            return storage.write(step.records)

    def _create(self) -> Outcome:
        assert self._create_config is not None, "the inspection says that it is impossible"
        version = parse_kafka_version(self._client.root().version)
        if version is not None and version < CREATE_STOPPED_SINCE:
            return Outcome(AttemptResult.NACK, "Connect creates connectors stopped since Kafka 3.7")
        config = format_config_texts(self._create_config)
        reply = self._writer.create(self._connector, config, initial_state="STOPPED")
        return classify_request_reply(self._require_access(reply), done=frozenset({201}))

    def _require_access(self, reply: ConnectReply) -> ConnectReply:
        if reply.status in {401, 403}:
            raise AccessDenied(self._client.name, f"HTTP {reply.status}")
        return reply


def _parse_topic(step: Write) -> str:
    return step.where.rpartition("/")[2]


def _check_stopped(connector: RestConnectorState) -> StepStatus:
    """Inspect a stop: DONE only when the task configurations are gone and the state is STOPPED.

    Connect removes the configurations first.
    """
    if connector.status.state != "stopped":
        return StepStatus.READY if connector.configured else StepStatus.PARTLY
    remaining = connector.configured or connector.status.tasks
    return StepStatus.NOT_YET if remaining else StepStatus.DONE


def _list_states(connector: RestConnectorState) -> set[str]:
    return {connector.status.state, *connector.status.tasks}


def _describe_state(connector: RestConnectorState | None) -> str:
    if connector is None:
        return "of unknown state"
    if not connector.status.tasks:
        return f"{connector.status.state}, no tasks"
    return f"{connector.status.state}, tasks: {' '.join(connector.status.tasks)}"


# --- replies to requests that change something ----------------------------------------------------
# The status code is not enough: 500 may be a refusal in the connector's own words, consumers that
# have not left yet, a worker that could not be reached, or a reply that took longer than 90 s while
# the work continues. Connect's own messages are known; all others are the connector's.

# Connect's own sentences for a change of offsets (Kafka 4.3.1: Worker, HerderRequestHandler,
# RestClient). Any other is what the connector refuses with: it is asked before anything is written.
_IN_DOUBT_MESSAGE = re.compile(
    r"\btimed? ?out|\binterrupted|IO Error trying to forward|Worker is shutting down",
    re.IGNORECASE,
)
# The attempt has ended, perhaps halfway. "Failed to modify offsets for source connector c" also
# stands for whatever a connector throws that is no ConnectException; its words are not passed on.
# An exception without words is "null".
_FAILURES = re.compile(
    r"^Failed to (?:modify|alter|reset|write|perform|delete|list|read)\b|^(?:null)?$",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    r"^Failed to modify offsets for connector .* because it doesn't support", re.DOTALL
)
# Of other requests a 500 is a refusal only where the request could not be read.
_UNREADABLE_REQUEST = re.compile(
    r"Unrecognized field|Cannot deserialize|Cannot construct instance|Unexpected (?:character|end)"
    r"|JSON parse",
    re.IGNORECASE,
)
_RETRIABLE_MESSAGE = re.compile(
    r"can be safely retried|zombie sink task|because a rebalance is expected", re.IGNORECASE
)
# The worker that answered could not even connect to its leader, which is gone or just starting.
_NOT_FORWARDED = re.compile(r"IO Error trying to forward.*ConnectException", re.IGNORECASE)
_NOT_STOPPED: Final = "must be in the STOPPED state"
_OFFSETS_CHANGED_MESSAGE = re.compile(
    r"The offsets for this connector have been (?:altered|reset) successfully\.?"
)
_NO_ROUTE: Final = "HTTP 404 Not Found"
_EXISTS: Final = "already exists"


def classify_request_reply(reply: ConnectReply, *, done: frozenset[int]) -> Outcome:
    """Classify a reply to a request for a state, a restart, a creation or a deletion.

    `done` has the status codes that mean success.
    """
    said = _format_reply(reply)
    if reply.status in done:
        return Outcome(AttemptResult.ACK, said)
    if reply.status == 409 and _EXISTS in said:
        return Outcome(AttemptResult.IN_DOUBT, said)  # an attempt of ours may have come late
    if reply.status in {409, 429} or (reply.status == 404 and reply.said == _NO_ROUTE):
        return Outcome(AttemptResult.RETRY, said)
    if reply.status == 500 and _NOT_FORWARDED.search(said):
        return Outcome(AttemptResult.RETRY, said)
    if 300 <= reply.status < 500:
        return Outcome(AttemptResult.NACK, said)
    if reply.status == 500 and reply.said is not None and _UNREADABLE_REQUEST.search(reply.said):
        return Outcome(AttemptResult.NACK, said)
    return Outcome(AttemptResult.IN_DOUBT, said)


def classify_offsets_reply(reply: ConnectReply) -> Outcome:
    """Classify a reply to a PATCH or a DELETE of offsets."""
    said = _format_reply(reply)
    if reply.status == 200 and reply.said is not None:
        definite = _OFFSETS_CHANGED_MESSAGE.fullmatch(reply.said) is not None
        return Outcome(AttemptResult.ACK, said, definite=definite)
    if reply.status == 400 and _NOT_STOPPED in said:
        return Outcome(
            AttemptResult.RETRY, said
        )  # a leader may hear of a stop later than its worker
    if reply.status == 500 and _RETRIABLE_MESSAGE.search(said):
        return Outcome(AttemptResult.RETRY, said)
    if reply.status == 500 and reply.said and not _IN_DOUBT_MESSAGE.search(reply.said):
        return Outcome(_classify_refusal(reply.said), said)
    return classify_request_reply(reply, done=frozenset())


def _classify_refusal(message: str) -> AttemptResult:
    ended_halfway = _FAILURES.search(message) and not _UNSUPPORTED.search(message)
    return AttemptResult.FAILED if ended_halfway else AttemptResult.NACK


def _format_reply(reply: ConnectReply) -> str:
    code = f"HTTP {reply.status}"
    said = reply.said or reply.other
    return code if not said else f"{code}: {said}"
