import pytest

from offsetwatch.errors import AccessDenied, RemoteRefusal
from offsetwatch.remedy.drivers.common_steps import (
    DeleteTopicHandler,
    StepDispatcher,
    add_topic_deletion,
)
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import DeleteTopic, Freeze

SYNCS = "mm2-offset-syncs.east.internal"
STEP = DeleteTopic(kafka="west", topic=SYNCS, topic_id="old")


class Topics:
    """A TopicWriter over a map of names and ids."""

    def __init__(self, ids: dict[str, str]) -> None:
        self.ids = ids
        self.denied = False
        self.closed = 0

    def topic_id(self, topic: str) -> str | None:
        return self.ids.get(topic)

    def delete(self, topic: str) -> None:
        if self.denied:
            raise AccessDenied("west", "not allowed")
        del self.ids[topic]

    def close(self) -> None:
        self.closed += 1


def test_a_topic_that_is_there_can_be_deleted_and_then_it_is_done():
    topics = Topics({SYNCS: "old", "orders": "other"})
    steps = DeleteTopicHandler(lambda _kafka: topics)
    assert steps.inspect(STEP).status is StepStatus.READY
    assert steps.carry_out(STEP).answer is AttemptResult.ACK
    assert topics.ids == {"orders": "other"}
    assert steps.inspect(STEP).status is StepStatus.DONE
    assert topics.closed == 3


def test_a_topic_of_the_same_name_that_was_created_since_is_left_alone():
    topics = Topics({SYNCS: "new"})
    steps = DeleteTopicHandler(lambda _kafka: topics)
    assert steps.inspect(STEP).status is StepStatus.DONE
    assert steps.carry_out(STEP).answer is AttemptResult.NACK
    assert topics.ids == {SYNCS: "new"}


def test_what_the_broker_refuses_has_not_happened():
    topics = Topics({SYNCS: "old"})
    topics.denied = True
    with pytest.raises(AccessDenied):
        DeleteTopicHandler(lambda _kafka: topics).carry_out(STEP)
    assert topics.closed == 1


class Other:
    """A driver of whatever else there is to do."""

    def identity(self) -> str:
        return "cluster"

    def offsets(self) -> DriverOffsets:
        return DriverOffsets(())

    def inspect(self, step, frozen) -> StepInspection:
        return StepInspection(StepStatus.NOT_YET, type(step).__name__)

    def carry_out(self, step, frozen) -> Outcome:
        return Outcome(AttemptResult.RETRY, type(step).__name__)


def test_a_driver_with_topics_does_all_else_as_before():
    driver = StepDispatcher(
        Other(), {DeleteTopic: DeleteTopicHandler(lambda _kafka: Topics({SYNCS: "old"}))}
    )
    assert (driver.identity(), driver.offsets()) == ("cluster", DriverOffsets(()))
    assert driver.inspect(Freeze(), None) == (StepStatus.NOT_YET, "Freeze")
    assert driver.carry_out(Freeze(), None).said == "Freeze"
    assert driver.inspect(STEP, None).status is StepStatus.READY
    assert driver.carry_out(STEP, None).answer is AttemptResult.ACK


def test_a_cluster_that_is_not_configured_is_not_guessed_at():
    with pytest.raises(RemoteRefusal, match="west"):
        add_topic_deletion(Other(), {}).inspect(STEP, None)
