from __future__ import annotations

from offsetwatch.state.memo import Memo, TupleMemo


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


def test_a_result_is_recreated_for_each_input_that_is_another_object():
    memo: Memo[object] = Memo()
    first, same = [1, 2], "a"
    result = memo.get(first, same, make=object)
    assert memo.get(first, same, make=object) is result
    other = memo.get([1, 2], same, make=object)
    assert other is not result
    assert memo.get(first, "b", make=object) is not result
    assert memo.get(first, make=object) is not memo.get(first, same, make=object)


def test_a_result_without_inputs_is_made_once():
    memo: Memo[object] = Memo()
    assert memo.get(make=object) is memo.get(make=object)
