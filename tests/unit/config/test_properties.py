"""What Java reads of a properties file."""

from __future__ import annotations

import pytest

from offsetwatch.config.properties import BYTES_MAX, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a  =  1  \n", {"a": "1  "}),
        ("# no\n! no\n\n   \na=1", {"a": "1"}),
        ("a=1\\\n   ,2\\\r\n\t,3\n", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2\n", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment\n", {"a": "1# no comment"}),
        ("a\\:b\\=c\\ d = e=f:g", {"a:b=c d": "e=f:g"}),
        ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
        ("a=1\na=2\n", {"a": "2"}),
        ("A->B.enabled = true\n", {"A->B.enabled": "true"}),
        ("a=1\rb=2", {"a": "1", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("=x\n", {"": "x"}),
        ("a\vb c\n", {"a\vb": "c"}),
        ("\\\n# no\na=1", {"a": "1"}),
        ("a\\\n\n b=1", {"a": "", "b": "1"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text, expected):
    assert parse_properties(text.encode()) == expected


def test_a_file_is_latin_1_whatever_it_was_written_in():
    assert parse_properties("a=é".encode()) == {"a": "Ã©"}


def test_a_file_of_another_kind_is_not_read_whole(tmp_path):
    path = tmp_path / "worker.properties"
    path.write_bytes(b"#" * BYTES_MAX + b"!")
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        read_properties(path)
    path.write_bytes(b"#" * (BYTES_MAX - 4) + b"\na=1")
    assert read_properties(path) == {"a": "1"}
