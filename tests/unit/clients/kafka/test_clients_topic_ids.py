"""What confluent-kafka keeps of topics' ids is given back, and nothing that somebody still has."""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace

import confluent_kafka as ck
import pytest

from offsetwatch.clients.kafka.clients import extract_topic_id

TEXT = "AAAAAAAAAAUAAAAAAAAABw"


def described(*, retained: bool) -> SimpleNamespace:
    """As the admin client describes a topic; `kept`: with a reference that nobody owns."""
    built = SimpleNamespace(topic_id=ck.Uuid(5, 7))
    if retained:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(built.topic_id))
    return built


def ids() -> int:
    gc.collect()
    return sum(isinstance(item, ck.Uuid) for item in gc.get_objects())


@pytest.mark.parametrize("retained", [True, False])
def test_an_id_is_gone_with_its_description(retained):
    before = ids()
    for _ in range(100):
        assert extract_topic_id(described(retained=retained)) == TEXT
    assert ids() == before


@pytest.mark.parametrize("retained", [True, False])
def test_an_id_that_is_requested_twice_is_still_there(retained):
    before, at = ids(), described(retained=retained)
    assert [extract_topic_id(at) for _ in range(5)] == [TEXT] * 5
    assert ids() == before + 1
    del at
    assert ids() == before


def test_an_id_with_another_reference_stays():
    """Rather too much is kept than too little: another reference may be anybody's."""
    before, at = ids(), described(retained=True)
    held = [at.topic_id, at.topic_id]
    extract_topic_id(at)
    del at
    assert [str(one) for one in held] == [TEXT] * 2
    del held
    assert ids() == before + 1
    (stray,) = [one for one in gc.get_objects() if isinstance(one, ck.Uuid) and str(one) == TEXT]
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(stray))


def test_unlike_ids_have_unlike_texts():
    assert extract_topic_id(SimpleNamespace(topic_id=ck.Uuid(0, 1))) != TEXT
