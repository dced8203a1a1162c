"""What explains a finding: plans of the journal, compaction, transforms; and what does not."""

from __future__ import annotations

import pytest

from offsetwatch.history.audit.differences import (
    HashedRecord,
    MirrorDifference,
    MirrorDifferenceKind,
    Span,
)
from offsetwatch.history.audit.explanations import (
    CompactionFacts,
    DifferenceExplainer,
    PlannedReposition,
    Transforms,
    find_repositions,
    parse_transforms,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.journal.journal import JournalEntry
from offsetwatch.remedy.model.journal_records import (
    AnyRecord,
    OffsetsBackedUp,
    PlanEnded,
    PlanOpened,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    PlanStatus,
    PlanSubject,
    RecordLocation,
    RequestedState,
    Reset,
)
from offsetwatch.remedy.model.quarantine import compute_receipt_id

ORDERS = TopicPartition("orders", 0)
PLACES = frozenset({"payments", "east/mm2-offsets"})
KEY = 77


def pair(offset: int | None, partition: int = 0, cluster: str = "west") -> PartitionOffset:
    where = f'{{"cluster":"{cluster}","partition":{partition},"topic":"orders"}}'
    return PartitionOffset(where, None if offset is None else f'{{"offset":{offset}}}')


def journal(
    *steps: AnyStep,
    before: tuple[PartitionOffset, ...] = (pair(99),),
    ending: PlanStatus = PlanStatus.SUCCEEDED,
    location: str = "payments",
    connector: str = "mm2",
    done: bool = True,
) -> list[JournalEntry]:
    plan = Plan(
        plan_id="plan-1",
        verb="skip",
        subject=PlanSubject(driver="rest", store=location, connector=connector, kind="mirror"),
        steps=(Freeze(), *steps),
        original=RequestedState.RUNNING,
        final=RequestedState.RUNNING,
        created_at=1.0,
        created_by="ann",
    )
    records: list[AnyRecord] = [
        PlanOpened(at=1.0, plan=plan),
        OffsetsBackedUp(at=2.0, frozen=FrozenOffsets(pairs=before, backup="b", backup_sha256="s")),
    ]
    records += [
        StepVerified(at=3.0, index=number, undoing=False, said="")
        for number in range(len(plan.steps) if done else 1)
    ]
    records.append(PlanEnded(at=4.0, ending=ending, said=""))
    return [JournalEntry(seq, "plan-1", at) for seq, at in enumerate(records, start=1)]


def list_repositions(entries: list[JournalEntry]) -> list[tuple[int, int, bool]]:
    repositions = find_repositions(entries, PLACES, "mm2", "west")
    assert all(item.at == ORDERS for item in repositions)
    return [(item.first, item.last, item.again) for item in repositions]


def test_a_plan_that_moves_on_skips_what_lies_between() -> None:
    assert list_repositions(journal(Alter((pair(104),)))) == [(100, 104, False)]


def test_a_plan_that_moves_back_has_what_lies_between_copied_again() -> None:
    assert list_repositions(journal(Alter((pair(49),)))) == [(50, 99, True)]
    assert list_repositions(journal(Alter((pair(None),)))) == [(0, 99, True)]
    assert list_repositions(journal(Reset())) == [(0, 99, True)]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(journal(Alter((pair(104),)), ending=PlanStatus.RESTORED), id="undone"),
        pytest.param(journal(Alter((pair(104),)), done=False), id="not carried out"),
        pytest.param(journal(Alter((pair(104),)), connector="other"), id="another connector"),
        pytest.param(journal(Alter((pair(104),)), location="other"), id="another cluster"),
        pytest.param(
            journal(Alter((pair(104, cluster="south"),)), before=(pair(99, cluster="south"),)),
            id="another source",
        ),
        pytest.param(journal(Alter((pair(99),))), id="nothing changed"),
    ],
)
def test_no_other_plan_explains_anything(entries: list[JournalEntry]) -> None:
    assert list_repositions(entries) == []


def test_a_skip_names_its_plan_and_where_the_record_was_copied_to() -> None:
    copy = Copy(
        record=RecordLocation("west", "orders", "id", 0, 100),
        sha256="ab" * 32,
        size_bytes=10,
        skip_key="key",
        to="east/quarantine",
    )
    (skip,) = find_repositions(journal(copy, Alter((pair(100),))), PLACES, "mm2", "west")
    assert "plan-1" in skip.said
    assert f"copied to east/quarantine as {compute_receipt_id('key', 'ab' * 32)}" in skip.said


def lost(offset: int, *, tombstone: bool = False) -> MirrorDifference:
    return MirrorDifference(
        MirrorDifferenceKind.LOST, 0, 0, HashedRecord(offset, 1, 1, KEY, tombstone), None
    )


def added() -> MirrorDifference:
    return MirrorDifference(
        MirrorDifferenceKind.ADDED, 0, 0, None, HashedRecord(5, 1, 1, KEY, tombstone=False)
    )


def why(item: MirrorDifference, **more: object) -> tuple[str, bool]:
    inputs = {"of": (), "through": Transforms(), "newest": CompactionFacts(), **more}
    return DifferenceExplainer(ORDERS, inputs["of"], inputs["through"], inputs["newest"])(item)


def test_a_lost_record_is_explained_by_the_plan_that_skipped_it_and_by_no_other() -> None:
    of = (PlannedReposition(ORDERS, 10, 12, again=False, said="plan"),)
    assert [why(lost(number), of=of) for number in (9, 10, 12, 13)] == [
        ("", False),
        ("plan", True),
        ("plan", True),
        ("", False),
    ]
    elsewhere = (PlannedReposition(TopicPartition("orders", 1), 10, 12, again=False, said="plan"),)
    assert why(lost(10), of=elsewhere) == ("", False)


def test_blocks_that_are_there_twice_are_explained_only_if_all_of_them_were_copied_again() -> None:
    reasons = DifferenceExplainer(
        ORDERS,
        (PlannedReposition(ORDERS, 10, 20, again=True, said="plan"),),
        Transforms(),
        CompactionFacts(),
    )
    repeated = MirrorDifferenceKind.DUPLICATED
    assert reasons.find_plan(repeated, Span(10, 20)) == "plan"
    assert reasons.find_plan(repeated, Span(9, 20)) == ""


def test_compaction_takes_what_has_a_newer_record_and_nothing_else() -> None:
    newest = CompactionFacts(down=True, upstream={KEY: 30})
    assert why(lost(29), newest=newest)[1]
    assert why(lost(30), newest=newest) == ("", False)
    assert why(lost(30, tombstone=True), newest=newest)[1]
    assert why(lost(29), newest=CompactionFacts(upstream={KEY: 30})) == ("", False)


def test_a_copy_of_what_was_compacted_upstream_is_explained_by_its_key() -> None:
    assert why(added(), newest=CompactionFacts(up=True, upstream={KEY: 30}))[1]
    assert why(added(), newest=CompactionFacts(up=True)) == ("", False)
    assert why(added(), newest=CompactionFacts(upstream={KEY: 30})) == ("", False)


def test_a_filter_may_explain_a_loss_and_is_never_certain_to() -> None:
    through = parse_transforms(
        {
            "transforms": "drop",
            "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
            "transforms.drop.predicate": "secret",
        }
    )
    assert through == Transforms(
        ("org.apache.kafka.connect.transforms.Filter",),
        drops=True,
        alters=False,
        headers="the worker's",
    )
    answer, certain = why(lost(1), through=through)
    assert "Filter" in answer
    assert not certain


def test_transforms_of_connect_itself_but_its_filter_change_records_and_drop_none() -> None:
    through = parse_transforms(
        {"transforms": " a ", "transforms.a.type": "org.apache.kafka.connect.transforms.MaskField"}
    )
    assert (through.drops, through.alters) == (False, True)
    assert parse_transforms({"transforms": "b", "transforms.b.type": "com.acme.Odd"}).drops
    as_they_are = "org.apache.kafka.connect.converters.ByteArrayConverter"
    assert parse_transforms({"header.converter": as_they_are}) == Transforms()


def test_what_was_copied_before_a_router_came_may_be_in_a_topic_of_another_name() -> None:
    through = Transforms(("org.apache.kafka.connect.transforms.RegexRouter",), routes=True)
    answer, certain = why(lost(1), through=through)
    assert answer == "in a topic of another name, possibly (RegexRouter)"
    assert not certain


def test_headers_that_alone_differ_may_be_their_converters_work() -> None:
    through = parse_transforms(
        {"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}
    )
    up, same = (
        HashedRecord(1, 1, 10, KEY, tombstone=False),
        HashedRecord(1, 2, 10, KEY, tombstone=False),
    )
    other = HashedRecord(1, 2, 11, KEY, tombstone=False)
    answer, certain = why(
        MirrorDifference(MirrorDifferenceKind.ALTERED, 0, 0, up, same), through=through
    )
    assert "SimpleHeaderConverter" in answer
    assert not certain
    assert why(
        MirrorDifference(MirrorDifferenceKind.ALTERED, 0, 0, up, other), through=through
    ) == ("", False)
