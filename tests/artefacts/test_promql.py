"""The checks of alerts and boards are worth something only if they complain."""

from __future__ import annotations

import pytest

from .promql import misused_counters, plain_regexes, read, unknown_names

LAG = "offsetwatch_mm2_replication_lag_records"
COMMITS = "offsetwatch_source_offset_commits_total"


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        ("offsetwatch_lag > 1", "no metric offsetwatch_lag"),
        (f"sum({LAG}) / offsetwatch_lag", "no metric offsetwatch_lag"),
        ('absent(offsetwatch_lag{job="a"}[5m])', "no metric offsetwatch_lag"),
        (f'{LAG}{{cluster="a"}}', f"{LAG} has no label cluster"),
        (f'up{{topic="a"}} + {LAG}', "up has no label topic"),
        (f"sum by (topic, group) ({LAG})", "nothing here has a label group"),
        (f"sum without (tpoic) ({LAG})", "nothing here has a label tpoic"),
        (f"{LAG} unless on (shard) up", "nothing here has a label shard"),
    ],
)
def test_names_that_do_not_exist_are_found(expr, problem):
    assert unknown_names(expr) == [problem]


@pytest.mark.parametrize(
    "expr",
    [
        f'# offsetwatch_old\nmax without (instance, pod) (min_over_time({LAG}{{topic="a"}}[3m]))',
        f'label_replace(sum by (topic) ({LAG}), "problem", "x y", "", "") and on (problem) up == 1',
        'time() - process_start_time_seconds > 1e3 or up{job=~".*offsetwatch.*"} == bool 0',
        "up unless up offset 5m unless scrape_duration_seconds offset $__rate_interval",
    ],
)
def test_names_that_exist_are_not(expr):
    assert unknown_names(expr) == []


def test_a_recorded_name_exists_where_it_is_recorded():
    expr = f"{LAG} > scalar(max(a:b:c))"
    assert unknown_names(expr) == ["no metric a:b:c"]
    assert unknown_names(expr, recorded=["a:b:c"]) == []


@pytest.mark.parametrize(
    ("expr", "problems"),
    [
        (COMMITS, [f"{COMMITS} is not rated"]),
        (f"sum({COMMITS})", [f"{COMMITS} is not rated"]),
        (f"rate({LAG}[5m])", [f"{LAG} is no counter"]),
        (f"sum(rate({COMMITS}[5m]))", []),
        (f"deriv({LAG}[5m])", []),
    ],
)
def test_raw_counters_and_rated_gauges_are_found(expr, problems):
    assert misused_counters(expr) == problems


def test_a_regular_expression_that_is_none_is_found():
    assert plain_regexes(f'{LAG}{{topic=~"orders",source=~"a|b"}}') == [f'{LAG}{{topic=~"orders"}}']


def test_numbers_are_read_outside_windows_strings_and_names_only():
    assert read(f'max_over_time({LAG}{{topic="7"}}[3m]) > 10000.5 and a1 == 0').numbers == {
        10000.5,
        0,
    }
