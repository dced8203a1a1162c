from __future__ import annotations

from offsetwatch.state.memo import TupleMemo


def test_parts_are_joined_once_for_as_long_as_they_are_the_very_same():
    joined: TupleMemo[int] = TupleMemo()
    first, second = (1, 2), (3,)
    whole = joined.of((first, second))
    assert whole == (1, 2, 3)
    assert joined.of((first, second)) is whole
    assert joined.of((first, (4,))) == (1, 2, 4)
    assert joined.of((first, second, second)) == (1, 2, 3, 3)


def test_a_part_alone_is_the_whole():
    part = (1, 2)
    assert TupleMemo[int]().of((part,)) is part
    assert TupleMemo[int]().of(()) == ()
