"""The raw keys that `explain` prints of source partitions whose map is no HashMap."""

import msgspec

from exporter.cli.explain import _print_raw_keys

ROW = {"label": "name=a", "offset": msgspec.Raw(b'{"position":7}')}


def test_the_raw_key_of_a_hash_map_is_not_printed(capsys):
    _print_raw_keys([ROW])
    assert capsys.readouterr().out == ""


def test_another_raw_key_is_printed_and_all_of_which_it_may_be_one(capsys):
    unsure = [{"raw_key": '["c",{"b":1,"a":2}]', "offset": None}]
    _print_raw_keys(
        [
            {**ROW, "raw_key": '["c",{"a":2,"b":1}]', "raw_keys_unsure": []},
            {**ROW, "label": "other", "raw_key": None, "raw_keys_unsure": unsure},
        ]
    )
    printed = capsys.readouterr().out
    assert '["c",{"a":2,"b":1}]' in printed
    assert '{"position":7}' in printed
    assert '["c",{"b":1,"a":2}]' in printed
