"""Driver that changes one connector through the Strimzi resource that owns it.

Strimzi reverts changes over REST. operator.py requests offsets operations from Strimzi's operator.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from offsetwatch.clients.write.connect import ConnectReply
from offsetwatch.errors import NotFound, RemoteRefusal, ResponseTimeout
from offsetwatch.remedy.drivers.common_steps import (
    QUIET_S,
    QuietPeriod,
    check_expected_offsets,
    compare_offsets,
)
from offsetwatch.remedy.drivers.rest.driver import RestDriver, classify_offsets_reply
from offsetwatch.remedy.drivers.strimzi.operator import (
    OperatorRefusal,
    StrimziOperatorClient,
    build_config_map_fields,
)
from offsetwatch.remedy.drivers.strimzi.resources import (
    ConnectorResource,
    PatchOp,
    build_config_map_name,
    parse_target_state,
)
from offsetwatch.remedy.engine.requests import build_offsets_body
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
    Expect,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    RequestedState,
    Reset,
    Settle,
    ToState,
)

_CONNECT_REPLY: Final = re.compile(r"returned (\d{3}) \([^)]*\): ?(.*)", re.DOTALL)
# Said by the operator before it asks Connect for anything.
_ERROR_BEFORE_REQUEST: Final = re.compile(
    r"missing property|missing annotation|does not exist|is missing|Failed to parse"
    r"|not in STOPPED state|Unknown connector"
)


class StrimziDriver:
    """Driver for one connector through its Strimzi resource.

    stays       a stop is permanent: its earlier state is not stored
    """

    def __init__(self, operator: StrimziOperatorClient, *, stays: bool = False) -> None:
        self._operator = operator
        self._owner = operator.owner
        self._stays = stays
        self._requested: set[AnyStep] = set()
        self._quiet = QuietPeriod(operator.clock)

    def identity(self) -> str | None:
        """Return the resource's uid, which differs after it is recreated."""
        return str(self._operator.read().metadata.get("uid"))

    def offsets(self) -> DriverOffsets:
        """Return the offsets that the operator lists."""
        return DriverOffsets(self._operator.list_offsets())

    # --- inspections ------------------------------------------------------------------------------

    def inspect(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """Inspect a step; offsets are read by a listing of the operator."""
        try:
            return self._inspect_step(step, frozen)
        except NotFound as exc:
            return StepInspection(StepStatus.FOREIGN, exc.detail)

    def _inspect_step(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        resource = self._operator.read()
        if not resource.reconciled:
            said = f"{self._owner.said} is paused: the operator does nothing with it"
            return StepInspection(StepStatus.IMPOSSIBLE, said)
        match step:
            case ToState(state=RequestedState.STOPPED):
                return self._inspect_stop(step, resource)
            case ToState(state=state):
                return _check_state(state, resource)
            case Settle(quiet_s=quiet_s):
                return self._inspect_quiet(resource, QUIET_S if quiet_s is None else quiet_s)
            case Alter(pairs=pairs):
                return self._inspect_offsets(resource, frozen, pairs)
            case Reset():
                return self._inspect_offsets(resource, frozen, None)
            case Expect(pairs=pairs):
                return check_expected_offsets(self._operator.list_offsets(), pairs)
            case Freeze():
                return StepInspection(StepStatus.READY, "offsets can be read")
        return StepInspection(
            StepStatus.IMPOSSIBLE, "this cannot be done through Strimzi's resources"
        )

    def declared(self, state: RequestedState) -> StepInspection:
        """Check whether the resource specifies the state, whatever its status is.

        Raises ClientError.
        """
        try:
            resource = self._operator.read()
        except NotFound as exc:
            return StepInspection(StepStatus.FOREIGN, exc.detail)
        changed = state is not RequestedState.STOPPED and "state" in (resource.backup or {})
        says = resource.requested_state is state and not changed
        return StepInspection(StepStatus.DONE if says else StepStatus.READY, resource.said)

    def _inspect_stop(self, step: AnyStep, resource: ConnectorResource) -> StepInspection:
        if resource.requested_state is not RequestedState.STOPPED:
            if step in self._requested:
                said = f"another client has reverted {self._owner.said}: {resource.said}"
                return StepInspection(StepStatus.FOREIGN, said)
            return StepInspection(StepStatus.READY, resource.said)
        if resource.observed and not _is_stopped(resource):
            # The operator asked Connect right after the stop, and asks again when it is asked for
            # anything; left alone, two minutes later.
            self._operator.list_offsets()
            resource = self._operator.read()
        done = resource.observed and _is_stopped(resource)
        status = StepStatus.DONE if done else StepStatus.NOT_YET
        return StepInspection(status, _describe_with_warnings(resource))

    def _inspect_quiet(self, resource: ConnectorResource, required_s: float) -> StepInspection:
        if resource.requested_state is not RequestedState.STOPPED:
            return _report_resumed(resource.said)
        pairs = self._operator.list_offsets()
        if not _is_stopped(self._operator.read()):
            self._quiet.restart()
            return StepInspection(StepStatus.NOT_YET, _describe_with_warnings(resource))
        return self._quiet.inspect(pairs, required_s)

    def _inspect_offsets(
        self,
        resource: ConnectorResource,
        frozen: FrozenOffsets | None,
        target: tuple[PartitionOffset, ...] | None,
    ) -> StepInspection:
        inspection = compare_offsets(self._operator.list_offsets(), frozen, target)
        changeable = inspection.status in {StepStatus.READY, StepStatus.PARTLY}
        if not changeable or _is_stopped(resource):
            return inspection
        if resource.requested_state is not RequestedState.STOPPED:
            return _report_resumed(resource.said)
        return StepInspection(StepStatus.NOT_YET, _describe_with_warnings(resource))

    # --- changes ----------------------------------------------------------------------------------

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Execute the step's one operation to its end, so that no request of ours remains."""
        del frozen
        match step:
            case ToState(state=state):
                self._operator.withdraw()  # what a process that was killed has left
                self._operator.edit(lambda resource: self._to_state(resource, state))
                self._requested.add(step)
                return Outcome(AttemptResult.ACK, f"{self._owner.said} says {state}")
            case Alter(pairs=pairs):
                return self._alter("alter", build_offsets_body(pairs))
            case Reset():
                return self._alter("reset", None)
            case Settle() | Freeze() | Expect():
                return Outcome(AttemptResult.ACK, "nothing to request")
        return Outcome(AttemptResult.NACK, "this cannot be done through Strimzi's resources")

    def _to_state(self, resource: ConnectorResource, state: RequestedState) -> list[PatchOp]:
        """Build the patch for a state.

        A resume restores exactly the earlier fields if they mean the same.
        """
        backup = resource.backup
        if backup is None:
            said = f"{self._owner.said} is held for another connector"
            raise RemoteRefusal(self._operator.name, said)
        if state is RequestedState.STOPPED:
            if resource.requested_state is RequestedState.STOPPED:
                return []
            if self._stays:
                return resource.field("state", state.value)
            return resource.patch_fields({"state": state.value})
        was = {**resource.part, "state": backup.get("state")}
        if "state" in backup and parse_target_state(was) is state:
            return resource.patch_restore(
                {"state": RequestedState.STOPPED.value, **build_config_map_fields(self._owner)}
            )
        fields = {"state": None, **build_config_map_fields(self._owner)}
        return [*resource.field("state", state.value), *resource.patch_restore(fields)]

    def _alter(self, operation: str, body: bytes | None) -> Outcome:
        resource = self._operator.read()
        if not _is_stopped(resource):
            return Outcome(AttemptResult.NACK, f"nothing was requested: {resource.said}")
        try:
            if body is not None:
                self._operator.put_config_map(
                    resource, build_config_map_name(self._owner, "alter"), body.decode()
                )
            self._operator.run(operation)
        except OperatorRefusal as exc:
            return classify_operator_message(exc.detail)
        except ResponseTimeout as exc:
            return Outcome(AttemptResult.IN_DOUBT, exc.detail)
        return Outcome(AttemptResult.ACK, "the operator has done it, and removed the annotation")

    def requests(self, step: AnyStep) -> tuple[str, ...]:
        """Return the patches of a step in the current state, for users."""
        resource = self._operator.read()
        config_maps: tuple[str, ...] = ()
        match step:
            case ToState(state=RequestedState.STOPPED):
                return (_format_patch(resource, resource.patch_fields({"state": "stopped"})),)
            case ToState(state=state):
                before = resource.part.get("state")
                value = before if parse_target_state(resource.part) is state else state.value
                removed: PatchOp = {"op": "remove", "path": f"{resource.base}/state"}
                ops = resource.field("state", value) if value else [removed]
                return (_format_patch(resource, ops),)
            case Freeze():
                operation = "list"
            case Alter(pairs=pairs):
                operation = "alter"
                name = f"{self._owner.namespace}/{build_config_map_name(self._owner, operation)}"
                body = build_offsets_body(pairs).decode()
                config_maps = (f"ConfigMap {name}, {resource.key}: {body}",)
            case Reset():
                operation = "reset"
            case _:
                return ()
        ops = resource.patch_operation(operation, self._operator.fields(resource, operation))
        reverted = "and, once the operator is done with it, all of that taken back"
        return (*config_maps, _format_patch(resource, ops), reverted)


def classify_operator_message(said: str) -> Outcome:
    """Classify a warning of the operator; it quotes Connect's reply, if there was one."""
    returned = _CONNECT_REPLY.search(said)
    if returned is not None:
        reply = ConnectReply(int(returned[1]), returned[2] or None)
        return classify_offsets_reply(reply)._replace(said=said)
    if _ERROR_BEFORE_REQUEST.search(said):
        return Outcome(AttemptResult.NACK, said)
    return Outcome(AttemptResult.IN_DOUBT, said)


def _is_stopped(resource: ConnectorResource) -> bool:
    """Return whether the connector is stopped according to its resource.

    That may be outdated: the operator asks Connect again before it changes anything, and Connect
    refuses unless the connector is stopped.
    """
    return (
        resource.requested_state is RequestedState.STOPPED
        and resource.state == "stopped"
        and not resource.tasks
    )


def _report_resumed(said: str) -> StepInspection:
    return StepInspection(StepStatus.FOREIGN, f"it is no longer to be stopped: {said}")


def _check_state(state: RequestedState, resource: ConnectorResource) -> StepInspection:
    """Inspect a resume or a pause: DONE also if the connector has failed since."""
    if resource.requested_state is not state or "state" in (resource.backup or {}):
        return StepInspection(StepStatus.READY, resource.said)
    there = {"running", "failed"} if state is RequestedState.RUNNING else {"paused", "failed"}
    status = StepStatus.DONE if resource.state in there else StepStatus.NOT_YET
    return StepInspection(status, _describe_with_warnings(resource))


def _describe_with_warnings(resource: ConnectorResource) -> str:
    return "; the operator complains: ".join((resource.said, *resource.warning_texts[:1]))


def _format_patch(resource: ConnectorResource, ops: list[PatchOp]) -> str:
    return f"PATCH {resource.path} {msgspec.json.encode(ops).decode()}"


class RestObservedStrimziDriver:
    """Driver through a resource and REST. A step is DONE where both report it."""

    def __init__(self, rest: RestDriver, strimzi: StrimziDriver) -> None:
        self._rest = rest
        self._strimzi = strimzi
        self._requested: set[AnyStep] = set()

    def identity(self) -> str | None:
        """Return the id of the Kafka cluster, so that no driver skips a record a second time."""
        return self._rest.identity()

    def offsets(self) -> DriverOffsets:
        """Return the offsets that Connect would pass to tasks."""
        return self._rest.offsets()

    def inspect(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        match step:
            case ToState(state=RequestedState.STOPPED):
                # Strimzi's own inspection has the operator poll, which changes no offsets before.
                return self._inspect_both(step, self._strimzi.inspect(step, frozen))
            case ToState(state=state):
                return self._inspect_both(step, self._strimzi.declared(state))
            case Settle() | Alter():
                declared = self._strimzi.declared(RequestedState.STOPPED)
                if declared.status is not StepStatus.DONE:
                    return _report_resumed(declared.said)
        return self._rest.inspect(step, frozen)

    def _inspect_both(self, step: ToState, declared: StepInspection) -> StepInspection:
        if declared.status is not StepStatus.DONE:
            return declared
        inspection = self._rest.inspect(step, None)
        if inspection.status in {StepStatus.READY, StepStatus.PARTLY} and step in self._requested:
            said = f"its resource says {step.state}; Connect says it is {inspection.said}"
            return StepInspection(StepStatus.NOT_YET, said)
        return inspection

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Execute a step; a restart goes over REST, as it changes nothing in the resource."""
        if not isinstance(step, ToState | Alter):
            return self._rest.carry_out(step, frozen)
        outcome = self._strimzi.carry_out(step, frozen)
        if outcome.answer is AttemptResult.ACK:
            self._requested.add(step)
            self._rest.mark_requested(step)
        return outcome
