"""Messages of pgoutput, as PostgreSQL 15 sends them."""

from __future__ import annotations

import pytest

from offsetwatch.decode.pgoutput import (
    ChangeMessage,
    CommitMessage,
    RelationMessage,
    parse_pgoutput,
)
from offsetwatch.model.offsets import Undecodable

BEGIN = "420000000001d7f6500003047ae6219830000002eb"
RELATION = "52000040057075626c6963006f7264657273006400030169640000000014ffffffff006e6f7465"
COMMIT = "43000000000001d7f6500000000001d7f6800003047ae6219830"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BEGIN, None),
        ("4f000000000000001061", None),
        ("5900004010", None),
        (RELATION, RelationMessage(16389, "public.orders")),
        ("520000400500706700", RelationMessage(16389, "pg_catalog.pg")),
        (COMMIT, CommitMessage(30930512, 30930560, 1_796_035_623_614_512)),
        ("4900004005", ChangeMessage("INSERT", (16389,))),
        ("5500004005", ChangeMessage("UPDATE", (16389,))),
        ("4400004005", ChangeMessage("DELETE", (16389,))),
        ("54000000020000004005000040063f", ChangeMessage("TRUNCATE", (16389, 16390))),
        ("5400000002000000400500", ChangeMessage("TRUNCATE", (16389,))),
        ("4d01", ChangeMessage("MESSAGE")),
        ("4d00", ChangeMessage("MESSAGE", is_transactional=False)),
    ],
)
def test_a_message_is_read_without_the_values_of_its_rows(content: str, message: object) -> None:
    assert parse_pgoutput(bytes.fromhex(content)) == message


@pytest.mark.parametrize("content", ["", "53", "00", COMMIT[:-2], "490000", RELATION[:20], "4d"])
def test_anything_else_is_undecodable(content: str) -> None:
    assert isinstance(parse_pgoutput(bytes.fromhex(content)), Undecodable)
