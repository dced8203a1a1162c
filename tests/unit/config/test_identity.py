"""Where a source is: told apart by the configuration, without repeating secrets of it."""

from __future__ import annotations

import pytest

from offsetwatch.config.identity import format_source_address
from offsetwatch.config.schema.sources import Source

DSN = "postgresql://ow:{password}@{host}:5432/shop"


def build_source(**settings) -> Source:
    kind = settings.pop("kind", "postgresql")
    return Source.model_validate(
        {"name": "shop", "kind": kind, "connectors": [{"connect": "lab"}], **settings}
    )


def test_the_address_of_a_source_has_no_user_and_no_password():
    address = format_source_address(build_source(dsn=DSN.format(password="s3cret", host="db-1")))
    assert "db-1" in address
    assert "s3cret" not in address
    assert "ow" not in address
    other = format_source_address(build_source(dsn=DSN.format(password="new", host="db-1")))
    assert other == address


@pytest.mark.parametrize(
    "settings",
    [
        {"dsn": DSN.format(password="s3cret", host="db-2")},
        {"dsn_file": __file__},
        {"host": "db-1", "user": "ow", "database": "shop"},
        {"host": "db-1", "user": "ow", "database": "books"},
        {"host": "db-1", "user": "ow", "database": "shop", "kind": "mysql"},
        {"kind": "file", "folder": "/data"},
    ],
)
def test_other_servers_databases_and_folders_are_other_addresses(settings):
    first = build_source(dsn=DSN.format(password="s3cret", host="db-1"))
    assert format_source_address(build_source(**settings)) != format_source_address(first)
