"""docs/scaling.md: its tables are what is reckoned, of what benches that there are have printed."""

from __future__ import annotations

from importlib.util import find_spec
from math import ceil

import pytest

from bench import scaling
from bench.scaling import BASE, CORES_MAX, SCRAPE_S_MAX, TARGETS, Fleet, need

WHOLE = TARGETS[-1]


def test_the_tables_are_what_is_reckoned():
    page = scaling.PAGE.read_text(encoding="utf-8")
    assert scaling.written(page) == page, "python -m bench.scaling"


@pytest.mark.parametrize("constant", scaling.CONSTANTS, ids=lambda item: item.unit)
def test_every_constant_is_printed_by_a_bench_that_there_is(constant):
    assert find_spec(constant.by.partition(",")[0]) is not None


@pytest.mark.parametrize("fleet", TARGETS)
def test_no_daemon_carries_more_than_one_can(fleet):
    result = need(fleet)
    assert result.rest_cores / result.daemons <= CORES_MAX
    assert result.first_scrape_s <= SCRAPE_S_MAX


def test_with_nothing_to_watch_one_daemon_takes_what_a_daemon_takes():
    result = need(Fleet(connectors=0, sources=0, mirrored=0, commits=0))
    assert (result.daemons, result.memory_mib, result.rest_cores) == (1, BASE.value, 0)


def test_half_the_fleet_takes_half():
    half = need(
        Fleet(WHOLE.connectors // 2, WHOLE.sources, WHOLE.mirrored // 2, WHOLE.commits // 2)
    )
    whole = need(WHOLE)
    assert half.daemons == ceil(whole.daemons / 2)
    of_all = [
        requirement.memory_mib - BASE.value * requirement.daemons for requirement in (half, whole)
    ]
    assert 2 * of_all[0] == pytest.approx(of_all[1])
    assert 2 * half.backfill_s == whole.backfill_s
