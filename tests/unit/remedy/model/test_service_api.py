"""What is asked at the desk and told there."""

from __future__ import annotations

import msgspec
import pytest

from offsetwatch.remedy.model import service_api

NOUNS = [
    noun
    for noun in vars(service_api).values()
    if isinstance(noun, type) and issubclass(noun, msgspec.Struct)
]


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)
def test_nothing_that_was_queried_or_reported_is_changed(noun: type[msgspec.Struct]) -> None:
    assert noun.__struct_config__.frozen
