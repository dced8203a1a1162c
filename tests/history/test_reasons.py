"""What explains a finding: plans of the journal, compaction, transforms; and what does not."""

from __future__ import annotations

import pytest
from offsetwatch.history.audit.differences import Item, Kind, Record, Span
from offsetwatch.history.audit.explanations import (
    Newest,
    Reasons,
    Skip,
    Transforms,
    skips,
    transforms,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.journal.journal import Entry
from offsetwatch.remedy.model.journal_records import (
    AnyRecord,
    Ended,
    Ending,
    Kept,
    Opened,
    Verified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Freeze,
    Frozen,
    Pair,
    Plan,
    RecordAt,
    Reset,
    State,
    Subject,
)
from offsetwatch.remedy.model.quarantine import receipt_id

ORDERS = TopicPartition("orders", 0)
PLACES = frozenset({"payments", "east/mm2-offsets"})
KEY = 77


def pair(offset: int | None, partition: int = 0, cluster: str = "west") -> Pair:
    where = f'{{"cluster":"{cluster}","partition":{partition},"topic":"orders"}}'
    return Pair(where, None if offset is None else f'{{"offset":{offset}}}')


def journal(
    *steps: AnyStep,
    before: tuple[Pair, ...] = (pair(99),),
    ending: Ending = Ending.SUCCEEDED,
    place: str = "payments",
    connector: str = "mm2",
    done: bool = True,
) -> list[Entry]:
    plan = Plan(
        plan_id="plan-1",
        verb="skip",
        subject=Subject(driver="rest", place=place, connector=connector, kind="mirror"),
        steps=(Freeze(), *steps),
        original=State.RUNNING,
        final=State.RUNNING,
        created_at=1.0,
        created_by="ann",
    )
    records: list[AnyRecord] = [
        Opened(at=1.0, plan=plan),
        Kept(at=2.0, frozen=Frozen(pairs=before, backup="b", backup_sha256="s")),
    ]
    records += [
        Verified(at=3.0, index=number, undoing=False, said="")
        for number in range(len(plan.steps) if done else 1)
    ]
    records.append(Ended(at=4.0, ending=ending, said=""))
    return [Entry(seq, "plan-1", at) for seq, at in enumerate(records, start=1)]


def told(entries: list[Entry]) -> list[tuple[int, int, bool]]:
    found = skips(entries, PLACES, "mm2", "west")
    assert all(at.at == ORDERS for at in found)
    return [(at.first, at.last, at.again) for at in found]


def test_a_plan_that_moves_on_skips_what_lies_between() -> None:
    assert told(journal(Alter((pair(104),)))) == [(100, 104, False)]


def test_a_plan_that_moves_back_has_what_lies_between_copied_again() -> None:
    assert told(journal(Alter((pair(49),)))) == [(50, 99, True)]
    assert told(journal(Alter((pair(None),)))) == [(0, 99, True)]
    assert told(journal(Reset())) == [(0, 99, True)]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(journal(Alter((pair(104),)), ending=Ending.RESTORED), id="undone"),
        pytest.param(journal(Alter((pair(104),)), done=False), id="not carried out"),
        pytest.param(journal(Alter((pair(104),)), connector="other"), id="another connector"),
        pytest.param(journal(Alter((pair(104),)), place="other"), id="another cluster"),
        pytest.param(
            journal(Alter((pair(104, cluster="south"),)), before=(pair(99, cluster="south"),)),
            id="another source",
        ),
        pytest.param(journal(Alter((pair(99),))), id="nothing changed"),
    ],
)
def test_no_other_plan_explains_anything(entries: list[Entry]) -> None:
    assert told(entries) == []


def test_a_skip_names_its_plan_and_where_the_record_was_copied_to() -> None:
    copy = Copy(
        record=RecordAt("west", "orders", "id", 0, 100),
        sha256="ab" * 32,
        size_bytes=10,
        skip_key="key",
        to="east/quarantine",
    )
    (skip,) = skips(journal(copy, Alter((pair(100),))), PLACES, "mm2", "west")
    assert "plan-1" in skip.said
    assert f"copied to east/quarantine as {receipt_id('key', 'ab' * 32)}" in skip.said


def lost(offset: int, *, tombstone: bool = False) -> Item:
    return Item(Kind.LOST, 0, 0, Record(offset, 1, 1, KEY, tombstone), None)


def added() -> Item:
    return Item(Kind.ADDED, 0, 0, None, Record(5, 1, 1, KEY, tombstone=False))


def why(item: Item, **more: object) -> tuple[str, bool]:
    given = {"of": (), "through": Transforms(), "newest": Newest(), **more}
    return Reasons(ORDERS, given["of"], given["through"], given["newest"])(item)


def test_a_lost_record_is_explained_by_the_plan_that_skipped_it_and_by_no_other() -> None:
    of = (Skip(ORDERS, 10, 12, again=False, said="plan"),)
    assert [why(lost(at), of=of) for at in (9, 10, 12, 13)] == [
        ("", False),
        ("plan", True),
        ("plan", True),
        ("", False),
    ]
    elsewhere = (Skip(TopicPartition("orders", 1), 10, 12, again=False, said="plan"),)
    assert why(lost(10), of=elsewhere) == ("", False)


def test_blocks_that_are_there_twice_are_explained_only_if_all_of_them_were_copied_again() -> None:
    reasons = Reasons(
        ORDERS, (Skip(ORDERS, 10, 20, again=True, said="plan"),), Transforms(), Newest()
    )
    assert reasons.again(Span(10, 20)) == "plan"
    assert reasons.again(Span(9, 20)) == ""


def test_compaction_takes_what_has_a_newer_record_and_nothing_else() -> None:
    newest = Newest(down=True, upstream={KEY: 30})
    assert why(lost(29), newest=newest)[1]
    assert why(lost(30), newest=newest) == ("", False)
    assert why(lost(30, tombstone=True), newest=newest)[1]
    assert why(lost(29), newest=Newest(upstream={KEY: 30})) == ("", False)


def test_a_copy_of_what_was_compacted_upstream_is_explained_by_its_key() -> None:
    assert why(added(), newest=Newest(up=True, upstream={KEY: 30}))[1]
    assert why(added(), newest=Newest(up=True)) == ("", False)
    assert why(added(), newest=Newest(upstream={KEY: 30})) == ("", False)


def test_a_filter_may_explain_a_loss_and_is_never_certain_to() -> None:
    through = transforms(
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
    said, certain = why(lost(1), through=through)
    assert "Filter" in said
    assert not certain


def test_transforms_of_connect_itself_but_its_filter_change_records_and_drop_none() -> None:
    through = transforms(
        {"transforms": " a ", "transforms.a.type": "org.apache.kafka.connect.transforms.MaskField"}
    )
    assert (through.drops, through.alters) == (False, True)
    assert transforms({"transforms": "b", "transforms.b.type": "com.acme.Odd"}).drops
    as_they_are = "org.apache.kafka.connect.converters.ByteArrayConverter"
    assert transforms({"header.converter": as_they_are}) == Transforms()


def test_what_was_copied_before_a_router_came_may_be_in_a_topic_of_another_name() -> None:
    through = Transforms(("org.apache.kafka.connect.transforms.RegexRouter",), routes=True)
    said, certain = why(lost(1), through=through)
    assert said == "in a topic of another name, possibly (RegexRouter)"
    assert not certain


def test_headers_that_alone_differ_may_be_their_converters_work() -> None:
    through = transforms(
        {"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}
    )
    up, same = Record(1, 1, 10, KEY, tombstone=False), Record(1, 2, 10, KEY, tombstone=False)
    other = Record(1, 2, 11, KEY, tombstone=False)
    said, certain = why(Item(Kind.ALTERED, 0, 0, up, same), through=through)
    assert "SimpleHeaderConverter" in said
    assert not certain
    assert why(Item(Kind.ALTERED, 0, 0, up, other), through=through) == ("", False)
