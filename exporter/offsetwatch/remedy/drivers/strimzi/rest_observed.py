"""Driver for a connector that Strimzi owns: changed through its resource, inspected over REST.

Strimzi would revert other changes; REST answers at once and needs no operation of the operator.
"""

from __future__ import annotations

from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver
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
    FrozenOffsets,
    RequestedState,
    Settle,
    ToState,
)


class RestObservedStrimziDriver:
    """Driver through a resource and REST. A step is DONE where both report it."""

    def __init__(self, rest: RestDriver, strimzi: StrimziDriver) -> None:
        self._rest = rest
        self._strimzi = strimzi
        self._asked: set[AnyStep] = set()

    def identity(self) -> str | None:
        """Return the id of the Kafka cluster, so that no driver skips a record a second time."""
        return self._rest.identity()

    def offsets(self) -> DriverOffsets:
        """Return the offsets that Connect would pass to tasks."""
        return self._rest.offsets()

    def look(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """See Driver."""
        match step:
            case ToState(state=RequestedState.STOPPED):
                # Strimzi's own look has the operator look again, who changes no offsets before.
                return self._both(step, self._strimzi.look(step, frozen))
            case ToState(state=state):
                return self._both(step, self._strimzi.declared(state))
            case Settle() | Alter():
                declared = self._strimzi.declared(RequestedState.STOPPED)
                if declared.standing is not StepStatus.DONE:
                    said = f"it is no longer to be stopped: {declared.said}"
                    return StepInspection(StepStatus.FOREIGN, said)
        return self._rest.look(step, frozen)

    def _both(self, step: ToState, declared: StepInspection) -> StepInspection:
        if declared.standing is not StepStatus.DONE:
            return declared
        inspection = self._rest.look(step, None)
        if inspection.standing in {StepStatus.READY, StepStatus.PARTLY} and step in self._asked:
            said = f"its resource says {step.state}; Connect says it is {inspection.said}"
            return StepInspection(StepStatus.NOT_YET, said)
        return inspection

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Execute a step; a restart goes over REST, as it changes nothing in the resource."""
        if not isinstance(step, ToState | Alter):
            return self._rest.carry_out(step, frozen)
        outcome = self._strimzi.carry_out(step, frozen)
        if outcome.answer is AttemptResult.ACK:
            self._asked.add(step)
            self._rest.was_asked(step)
        return outcome
