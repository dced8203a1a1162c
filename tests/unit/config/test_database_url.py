"""Addresses of databases: their parts, and errors that repeat nothing of them."""

from __future__ import annotations

import pytest

from offsetwatch.config.database_url import SCHEMES, DatabaseUrl, parse_database_url


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "postgresql://watcher:p%40ss%2Fw@db-1:5433/shop",
            ("postgresql", "watcher", "p@ss/w", "db-1", 5433, "shop", False),
        ),
        ("postgres://db-1", ("postgres", None, None, "db-1", None, None, False)),
        ("mysql://watcher@[::1]:3307", ("mysql", "watcher", None, "::1", 3307, None, False)),
        ("mysql://watcher:@db", ("mysql", "watcher", "", "db", None, None, False)),
        (
            "postgresql://u:p@a:1,b:2/shop?target_session_attrs=read-write",
            ("postgresql", "u", "p", "a,b", 1, "shop", True),
        ),
        (
            "oracle+oracledb://u:p@db/?service_name=x",
            ("oracle+oracledb", "u", "p", "db", None, None, True),
        ),
        ("sqlite:////var/lib/x.db", ("sqlite", None, None, None, None, "/var/lib/x.db", False)),
        (
            "postgresql:///shop?host=/var/run/postgresql",
            ("postgresql", None, None, None, None, "shop", True),
        ),
    ],
)
def test_the_parts_of_a_url(text: str, parts: tuple[object, ...]) -> None:
    assert parse_database_url(text) == DatabaseUrl(*parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:s3/cret@db/shop",
        "postgresql://u:s3@cret@db/shop",
        "postgresql://u:12/s3cret@db/shop",
        "postgresql://u:s3cret#x@db/shop",
        "postgresql://u:s3cret?x@db/shop",
        "postgresql://s3cret:x/",
        "postgresql://db:s3cret",
        "postgresql://db:0/s3cret",
        "postgresql://db:70000/s3cret",
        "host=db password=s3cret",
        "mysql://u:s3cret@db/shop",
        "",
    ],
)
def test_what_is_wrong_with_a_url_is_said_without_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"write %40|expected a URL") as raised:
        parse_database_url(text, SCHEMES["postgresql"])
    assert "s3cret" not in str(raised.value)
