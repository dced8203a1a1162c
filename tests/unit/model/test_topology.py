from __future__ import annotations

import dataclasses
import importlib
import pkgutil

import pytest

import offsetwatch.model
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    InputId,
    build_rest_offsets_input,
)
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, OffsetsTopic, Topology

NOUNS = [
    noun
    for module in pkgutil.iter_modules(offsetwatch.model.__path__)
    for noun in vars(importlib.import_module(f"offsetwatch.model.{module.name}")).values()
    if isinstance(noun, type) and dataclasses.is_dataclass(noun)
]


@pytest.mark.parametrize("noun", sorted(set(NOUNS), key=lambda noun: noun.__name__))
def test_every_noun_is_frozen_and_slotted(noun):
    assert noun.__dataclass_params__.frozen
    assert "__slots__" in vars(noun)


def flow(connector: str, syncs: KafkaTopic | None) -> MirrorFlow:
    return MirrorFlow(
        connect_cluster="lab",
        connector=connector,
        source="west",
        target="east",
        upstream="west",
        offset_syncs=syncs,
    )


def test_every_topic_to_follow_is_named_once_and_in_a_stable_order():
    offsets, syncs = KafkaTopic("east", "connect-offsets"), KafkaTopic("west", "syncs")
    topology = Topology(
        offsets_topics=(OffsetsTopic("two", offsets), OffsetsTopic("one", offsets)),
        flows=(flow("a", syncs), flow("b", syncs), flow("c", None)),
    )
    assert topology.tailed() == (offsets, syncs)


def test_a_topic_reads_as_cluster_and_name():
    assert str(KafkaTopic("east", "connect-offsets")) == "east/connect-offsets"


def test_a_number_is_found_by_its_field_even_if_it_is_zero():
    offset = SourceOffset(text='{"a":0}', numbers=(("a", 0),))
    assert offset.number("a") == 0
    assert offset.number("b") is None


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (InputId.of_tail(KafkaTopic("east", "connect-offsets")), "east/connect-offsets"),
        (InputId(LOG_ENDS, kafka="west"), "west"),
        (InputId(CONNECT_REST, connect_cluster="lab"), "lab"),
        (build_rest_offsets_input("lab", "files"), "lab/files"),
        (InputId(GROUPS, connect_cluster="lab", source="west", target="east"), "lab/west->east"),
    ],
    ids=str,
)
def test_an_input_has_a_name_for_operators(read, name):
    assert read.input == name
