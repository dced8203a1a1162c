"""A connector that Strimzi owns, for guarded remediation: changed through its resource, as anything
else would be put back, and looked at over REST, which tells at once and asks nothing of anybody.
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
    """See Driver and the module. A step is done where the resource says so and Connect as well."""

    def __init__(self, rest: RestDriver, strimzi: StrimziDriver) -> None:
        self._rest = rest
        self._strimzi = strimzi
        self._asked: set[AnyStep] = set()

    def identity(self) -> str | None:
        """The id of the Kafka cluster: a record is skipped but once, whichever way."""
        return self._rest.identity()

    def offsets(self) -> DriverOffsets:
        """What Connect would hand to tasks."""
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
        """A restart is no change of what is declared: the operator does not mind it."""
        if not isinstance(step, ToState | Alter):
            return self._rest.carry_out(step, frozen)
        outcome = self._strimzi.carry_out(step, frozen)
        if outcome.answer is AttemptResult.ACK:
            self._asked.add(step)
            self._rest.was_asked(step)
        return outcome
