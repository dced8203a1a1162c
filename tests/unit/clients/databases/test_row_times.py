"""Timestamp columns: what is exact is an instant, and what is not is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from offsetwatch.clients.databases.row_times import RowTimes, find_time_zone, read_clock
from offsetwatch.model.row_positions import RowOrder

NANOS = 1_767_323_045_678_901_000  # 2026-01-02T03:04:05.678901Z
POSTGRESQL = {"at": "TIMESTAMP WITHOUT TIME ZONE", "zoned": "TIMESTAMP(3) WITH TIME ZONE"}
MARIADB = {"at": "DATETIME(6)", "stamp": "TIMESTAMP", "day": "DATE"}


def times(server: str, types: dict[str, str], *names: str, zone: str = "UTC") -> RowTimes:
    return RowTimes(server, types, RowOrder("id", names, zone))


def local(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - a column without a zone


@pytest.mark.parametrize(
    ("found", "value", "literal"),
    [
        (
            times("postgresql", POSTGRESQL, "at", zone="Europe/Berlin"),
            local(2026, 1, 2, 4, 4, 5, 678901),
            "TIMESTAMP '2026-01-02 04:04:05.678901'",
        ),
        (
            times("postgresql", POSTGRESQL, "zoned", zone="Europe/Berlin"),
            datetime(2026, 1, 1, 22, 4, 5, 678901, timezone(timedelta(hours=-5))),
            "TIMESTAMPTZ '2026-01-02 03:04:05.678901+00'",
        ),
        (
            times("mariadb", MARIADB, "at"),
            local(2026, 1, 2, 3, 4, 5, 678901),
            "TIMESTAMP '2026-01-02 03:04:05.678901'",
        ),
    ],
    ids=["local", "instant", "datetime"],
)
def test_a_time_is_read_and_written_as_the_connector_has_it(
    found: RowTimes, value: datetime, literal: str
) -> None:
    assert found.read([None, value, datetime(2000, 1, 1, tzinfo=UTC)]) == NANOS
    assert found.write_literal(NANOS) == literal


def test_times_of_sqlite_are_milliseconds() -> None:
    found = times("sqlite", {"at": "TIMESTAMP"}, "at")
    assert found.read([1_767_323_045_678]) == 1_767_323_045_678_000_000
    assert found.write_literal(1_767_323_045_678_000_000) == "1767323045678"
    with pytest.raises(ValueError, match="no time in milliseconds"):
        found.read(["2026-01-02 03:04:05"])
    with pytest.raises(ValueError, match="as exact as"):
        found.write_literal(NANOS)


@pytest.mark.parametrize(
    ("server", "types", "names", "zone", "why"),
    [
        ("postgresql", POSTGRESQL, ("at", "zoned"), "UTC", "some of its timestamp columns have"),
        ("postgresql", POSTGRESQL, ("at",), "Mars/Olympus", "not know the time zone Mars/Olympus"),
        ("postgresql", POSTGRESQL, ("none",), "UTC", "none is no timestamp: it has none"),
        ("mariadb", MARIADB, ("stamp",), "UTC", "depends on the time zone of the connector's"),
        ("mariadb", MARIADB, ("day",), "UTC", "day is no timestamp: DATE"),
        ("sqlite", {"at": "TEXT"}, ("at",), "UTC", "at is no timestamp: TEXT"),
    ],
)
def test_columns_whose_times_are_not_exact_are_refused(
    server: str, types: dict[str, str], names: tuple[str, ...], zone: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        times(server, types, *names, zone=zone)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (local(2026, 10, 25, 2, 30), "Europe/Berlin has the time 2026-10-25 02:30:00 twice"),
        (
            local(2026, 3, 29, 2, 30),
            "Europe/Berlin has the time 2026-03-29 02:30:00 twice or never",
        ),
        (local(1969, 12, 31), "before 1970"),
        (local(2263, 1, 1), "after 2262"),
        ("infinity", "'infinity' is no time"),
        (None, "None is no time"),
    ],
)
def test_times_that_may_be_others_to_the_connector_are_refused(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        times("postgresql", POSTGRESQL, "at", zone="Europe/Berlin").read([value])


def test_a_moment_that_its_zone_has_twice_is_only_a_bound() -> None:
    found = times("postgresql", POSTGRESQL, "at", zone="Europe/Berlin")
    twice = 1_792_891_800_000_000_000  # 2026-10-25T00:30:00Z
    with pytest.raises(ValueError, match="twice"):
        found.write_literal(twice)
    assert found.write_literal(twice, is_bound=True) == "TIMESTAMP '2026-10-25 02:30:00.000000'"


@pytest.mark.parametrize(
    "value", [datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), "2026-01-02 03:04:05.678901"]
)
def test_the_time_of_the_server_is_cut_to_milliseconds(value: object) -> None:
    assert read_clock(value) == 1_767_323_045_678_000_000
    with pytest.raises(ValueError, match="its server's time is 7"):
        read_clock(7)


def test_time_zones_are_those_of_this_machine() -> None:
    assert find_time_zone("Europe/Berlin") is not None
    assert [find_time_zone(name) for name in ("", "Mars/Olympus", "../x", "Europe")] == [None] * 4
