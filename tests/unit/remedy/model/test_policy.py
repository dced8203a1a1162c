"""What configuration and the past allow: modes, selectors, budgets, storms, windows."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from offsetwatch.config import parse
from offsetwatch.config.schema.remediation import (
    SAFE_SINK_CLASSES,
    SINK_DATA_ERRORS,
    UNSAFE_SINK_NAMES,
    RemedyConfig,
    is_unsafe_sink,
)
from offsetwatch.model.findings import FindingName
from offsetwatch.remedy.classify import may_be_listed
from offsetwatch.remedy.model.fleet_state import RecordSkip
from offsetwatch.remedy.model.plan import Action, RecordLocation
from offsetwatch.remedy.model.policy import (
    Budgets,
    Clock,
    MassFailure,
    Policy,
    Rule,
    SinkProfile,
    Window,
    classify_sink,
    find_exceeded_budget,
    is_selected,
    update_mass_failure,
)
from offsetwatch.remedy.model.service_api import Mode
from offsetwatch.remedy.policy_settings import build_policy, find_ineffective_data_errors

NOW = 1_800_000_000.0
ME = ("lab", "orders-sink")
SAFE_SINK = SAFE_SINK_CLASSES[0]


def configured(**remedy) -> Policy:
    document = {
        "kafka": {"east": {"bootstrap": "127.0.0.1:19092"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:18083"}],
        "remedy": remedy,
    }
    return build_policy(parse(document, {}).remedy)


def skip(moment: float, subjects: tuple[str, str] = ME) -> RecordSkip:
    return RecordSkip(moment, "plan", subjects, RecordLocation("east", "t", "id", 3, 17), None)


# --- modes and selectors --------------------------------------------------------------------------


def test_without_a_word_nothing_is_done_for_anybody():
    policy = configured()
    assert policy.mode is Mode.OBSERVE
    for action in Action:
        assert policy.mode_of(*ME, action) is Mode.OBSERVE
        assert not policy.allowed(*ME, action)
    assert not policy.unmanaged(*ME)


@pytest.mark.parametrize(
    ("selector", "name", "meant"),
    [
        ("orders-sink", "orders-sink", True),
        ("orders-sink", "orders-sink-2", False),
        ("orders-sink", "Orders-sink", False),
        ("orders-sink", "оrders-sink", False),  # noqa: RUF001 - another o
        ("orders-*", "orders-sink", True),
        ("orders-*", "my-orders-sink", False),
        ("orders-*", "orders-", True),
        ("*-sink", "orders-sink", True),
        ("*-sink", "orders-sinker", False),
        ("o*s*k", "orders-sink", True),
        ("*o*s*", "orders-sink", True),
        ("orders[1]", "orders1", False),
        ("orders[1]", "orders[1]", True),
        ("orders.sink", "orders-sink", False),
        ("a*a", "a", False),
        ("orders*", "orders\nsink", True),
        ("", "", False),
        ("", "orders-sink", False),
        ("*", "", False),
        ("*ab*b", "ab", False),
        ("*ab*ab*", "ab", False),
        ("*ab*ab*", "abab", True),
        ("a*a*", "a", False),
        ("a*a*", "aa", True),
        ("*b*a*", "ab", False),
    ],
)
def test_a_selector_means_a_whole_name(selector, name, meant):
    assert is_selected(selector, name) is meant


def test_a_rule_is_for_its_connect_cluster_its_connectors_and_its_actions_alone():
    policy = configured(
        mode="auto",
        auto=[
            {"connect": "lab", "connectors": ["orders-*", "other"], "actions": ["stop"]},
            {"connect": "lab", "connectors": ["billing"], "actions": ["skip_one"]},
        ],
    )
    allowed = {
        (connect, connector, action)
        for connect, connector, action in product(
            ("lab", "other"), ("orders-sink", "billing", "x"), Action
        )
        if policy.allowed(connect, connector, action)
    }
    assert allowed == {
        ("lab", "orders-sink", Action.STOP),
        ("lab", "billing", Action.SKIP_ONE),
    }


@pytest.mark.parametrize("action", Action)
def test_a_mode_is_the_least_of_what_is_configured_what_was_set_and_what_is_allowed(action):
    rank = list(Mode)
    for mode, lowered, listed in product(Mode, (None, *Mode), (True, False)):
        rule = Rule("lab", ("orders-sink",), (action.value,) if listed else ())
        policy = Policy(mode=mode, auto=(rule,))
        here = Mode.AUTO if listed else Mode.PROPOSE
        least = min(mode, lowered or mode, here, key=rank.index)
        assert policy.mode_of(*ME, action, lowered_to=lowered) is least


def test_to_be_listed_for_one_action_is_to_be_listed():
    policy = Policy(auto=(Rule("lab", ("orders-sink",), ("stop",)),))
    assert policy.listed(*ME)
    assert not policy.listed("lab", "billing")


def test_unmanaged_applies_to_the_connectors_of_its_rule_alone():
    rules = [
        {"connect": "lab", "connectors": ["a"], "actions": ["stop"], "unmanaged": True},
        {"connect": "lab", "connectors": ["b"], "actions": ["stop"]},
    ]
    policy = configured(auto=rules)
    assert policy.unmanaged("lab", "a")
    assert not policy.unmanaged("lab", "b")


# --- sinks ----------------------------------------------------------------------------------------


def test_what_is_known_to_be_unsafe_stays_so():
    name = "com.snowflake.kafka.connector.SnowflakeSinkConnector"
    policy = replace(configured(), skip_safe=(name,))
    assert classify_sink(policy, name) is SinkProfile.UNSAFE
    for alias in ("SnowflakeSinkConnector", "SnowflakeSink"):
        assert classify_sink(policy, alias) is SinkProfile.UNSAFE


def test_a_class_is_safe_if_it_is_known_or_said_to_be_and_else_not_known():
    policy = configured(skip_safe_sinks=["com.example.LedgerSinkConnector"])
    assert classify_sink(policy, SAFE_SINK) is SinkProfile.SAFE
    assert classify_sink(policy, "com.example.LedgerSinkConnector") is SinkProfile.SAFE
    assert classify_sink(policy, "com.example.ledgersinkconnector") is SinkProfile.UNKNOWN
    assert classify_sink(policy, "") is SinkProfile.UNKNOWN


def test_nothing_is_known_to_be_both():
    assert not any(is_unsafe_sink(name) for name in SAFE_SINK_CLASSES)
    assert list(UNSAFE_SINK_NAMES) == sorted(UNSAFE_SINK_NAMES)


def test_data_errors_are_those_of_the_class():
    policy = configured(sink_data_errors={"a.B": ["x.Y", "x.Z"], "c.D": ["x.Y"]})
    assert policy.data_errors("a.B") == {"x.Y", "x.Z"}
    assert policy.data_errors("e.F") == frozenset()


def test_the_jdbc_sinks_have_the_exceptions_of_bad_data_by_default():
    aiven = "io.aiven.connect.jdbc.JdbcSinkConnector"
    policy = configured(sink_data_errors={aiven: ["x.Y"]})
    assert policy.data_errors(aiven) == {"x.Y", *SINK_DATA_ERRORS[aiven]}
    for name, errors in SINK_DATA_ERRORS.items():
        assert policy.data_errors(name) >= set(errors)
        assert "java.sql.SQLDataException" in errors
        assert all(map(may_be_listed, errors))
        assert not is_unsafe_sink(name)


def test_an_exception_that_never_means_a_bad_record_alone_is_named():
    sink = "io.aiven.connect.jdbc.JdbcSinkConnector"
    remedy = RemedyConfig(
        sink_data_errors={
            sink: ["com.example.BadRow", "java.sql.SQLException"],
            "a.B": ["org.apache.kafka.connect.errors.ConnectException"],
        }
    )
    first, second = find_ineffective_data_errors(remedy)
    assert first.startswith("remedy.sink_data_errors.a.B[0]: org.apache.kafka.connect.errors.")
    assert second.startswith(
        f"remedy.sink_data_errors.{sink}[1]: java.sql.SQLException has no effect: "
    )


@pytest.mark.parametrize("sink", ["com.example.SnowflakeSinkConnector", "S3SinkConnector"])
def test_what_a_sink_throws_of_which_no_record_is_skipped_has_no_effect(sink):
    remedy = RemedyConfig(sink_data_errors={sink: ["com.example.BadRow", "java.sql.SQLException"]})
    (mistake,) = find_ineffective_data_errors(remedy)
    assert mistake.startswith(f"remedy.sink_data_errors.{sink} has no effect: ")


def test_what_may_stop_a_connector_is_something_that_can_be_found():
    assert set(configured().stop_on) <= {name.value for name in FindingName}


# --- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "window_s"),
    [("connector_hour", 3_600), ("connector_day", 86_400), ("connector_week", 604_800)],
)
def test_a_budget_of_a_connector_is_counted_over_its_time(bound, window_s):
    wide = Budgets(99, 99, 99, 99, 99)
    policy = Policy(budgets=replace(wide, **{bound: 2}))
    nothing: frozenset[tuple[str, str]] = frozenset()
    inside, outside = skip(NOW - window_s + 1), skip(NOW - window_s)
    assert find_exceeded_budget(policy, (inside,), nothing, NOW, ME) is None
    assert find_exceeded_budget(policy, (inside, outside), nothing, NOW, ME) is None
    assert find_exceeded_budget(policy, (inside, skip(NOW, ("lab", "x"))), nothing, NOW, ME) is None
    assert find_exceeded_budget(policy, (inside, inside), nothing, NOW, ME) is not None


@pytest.mark.parametrize(("bound", "window_s"), [("fleet_hour", 3_600), ("fleet_day", 86_400)])
def test_a_budget_of_all_is_counted_over_all(bound, window_s):
    policy = Policy(budgets=replace(Budgets(99, 99, 99, 99, 99), **{bound: 2}))
    inside = [skip(NOW - window_s + 1, ("lab", name)) for name in "ab"]
    assert find_exceeded_budget(policy, inside[:1], frozenset(), NOW) is None
    assert find_exceeded_budget(policy, inside, frozenset(), NOW) is not None


def test_a_plan_that_is_not_over_holds_its_budget_however_old_its_skip_is():
    policy = Policy(budgets=Budgets(1, 99, 99, 1, 99))
    held = frozenset({ME})
    assert find_exceeded_budget(policy, (skip(NOW - 9e6),), held, NOW, ME) is not None
    assert find_exceeded_budget(policy, (skip(NOW - 9e6),), held, NOW) is not None


def test_skips_of_a_plan_that_is_not_over_count_at_any_age():
    policy = Policy(budgets=Budgets(99, 99, 99, 2, 99))
    held = frozenset({ME})
    assert find_exceeded_budget(policy, (skip(NOW - 9e6),), held, NOW) is None
    assert find_exceeded_budget(policy, (skip(NOW - 9e6), skip(NOW - 8e6)), held, NOW) is not None
    assert (
        find_exceeded_budget(policy, (skip(NOW - 9e6), skip(NOW - 8e6)), frozenset(), NOW) is None
    )


def test_a_plan_that_is_about_to_skip_counts_as_a_skip_and_not_as_two():
    policy = Policy(budgets=Budgets(99, 99, 99, 2, 99))
    held = frozenset({("lab", "x")})
    assert find_exceeded_budget(policy, (), held, NOW) is None
    assert find_exceeded_budget(policy, (skip(NOW, ("lab", "x")),), held, NOW) is None
    assert find_exceeded_budget(policy, (skip(NOW),), held, NOW) is not None


def test_a_skip_of_the_future_counts_as_one_of_now():
    policy = Policy(budgets=Budgets(1, 99, 99, 99, 99))
    assert find_exceeded_budget(policy, (skip(NOW + 7_200),), frozenset(), NOW, ME) is not None


def test_a_budget_of_nothing_is_always_used_up():
    policy = Policy(budgets=Budgets(0, 0, 0, 0, 0))
    assert find_exceeded_budget(policy, (), frozenset(), NOW, ME) is not None
    assert find_exceeded_budget(policy, (), frozenset(), NOW) is not None


# --- storms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connectors", "unhealthy", "rages"),
    [
        (100, 10, False),
        (100, 11, True),
        (20, 3, False),
        (20, 4, True),
        (6, 3, False),
        (5, 3, True),
        (3, 3, True),
        (2, 2, False),
        (1, 1, False),
        (0, 0, False),
    ],
)
def test_how_many_are_too_many(connectors, unhealthy, rages):
    after = update_mass_failure(MassFailure(), connectors=connectors, unhealthy=unhealthy, now=NOW)
    assert after.rages is rages


def test_what_flaps_around_the_threshold_stays_a_storm():
    failure = MassFailure()
    for minute in range(120):
        unhealthy = 4 if minute % 10 == 0 else 1
        failure = update_mass_failure(
            failure, connectors=20, unhealthy=unhealthy, now=NOW + 60 * minute
        )
        assert failure.rages
    failure = update_mass_failure(
        failure, connectors=20, unhealthy=1, now=NOW + 60 * 110 + 60 + 899
    )
    assert failure.rages
    assert (
        update_mass_failure(failure, connectors=20, unhealthy=1, now=NOW + 60 * 111 + 900)
        == MassFailure()
    )


def test_what_was_never_a_storm_is_calm_at_once():
    assert (
        update_mass_failure(MassFailure(calm_since=NOW), connectors=20, unhealthy=1, now=NOW)
        == MassFailure()
    )


def test_a_clock_that_is_set_back_ends_no_storm():
    failure = MassFailure(rages=True, calm_since=NOW)
    failure = update_mass_failure(failure, connectors=20, unhealthy=0, now=NOW - 3_600)
    assert failure == MassFailure(rages=True, calm_since=NOW - 3_600)
    assert update_mass_failure(failure, connectors=20, unhealthy=0, now=NOW - 2_701).rages


# --- windows --------------------------------------------------------------------------------------


def at(zone: str, *when: int) -> float:
    return datetime(*when, tzinfo=ZoneInfo(zone)).timestamp()


def window(**inputs) -> Window:
    (result,) = configured(maintenance={"deny": [inputs]}).deny
    return result


def test_a_window_is_on_from_its_start_until_before_its_end():
    mondays = window(days=["mon"], start="08:00", end="09:30")
    monday = (2026, 11, 23)
    assert not mondays.holds(at("UTC", *monday, 7, 59, 59))
    assert mondays.holds(at("UTC", *monday, 8))
    assert mondays.holds(at("UTC", *monday, 9, 29, 59))
    assert not mondays.holds(at("UTC", *monday, 9, 30))
    assert not mondays.holds(at("UTC", 2026, 11, 24, 8))


def test_a_window_over_midnight_is_of_the_day_on_which_it_begins():
    fridays = window(days=["fri"], start="22:00", end="06:00")
    assert not fridays.holds(at("UTC", 2026, 11, 27, 5))
    assert fridays.holds(at("UTC", 2026, 11, 27, 22))
    assert fridays.holds(at("UTC", 2026, 11, 28, 5, 59))
    assert not fridays.holds(at("UTC", 2026, 11, 28, 6))
    assert not fridays.holds(at("UTC", 2026, 11, 28, 22))


def test_the_night_after_a_sunday_is_of_the_week_before():
    sundays = window(days=["sun"], start="22:00", end="06:00")
    assert sundays.holds(at("UTC", 2026, 11, 22, 23))
    assert sundays.holds(at("UTC", 2026, 11, 23, 5))
    assert not sundays.holds(at("UTC", 2026, 11, 22, 5))


def test_one_of_several_windows_is_enough():
    morning, evening = {"start": "08:00", "end": "09:00"}, {"start": "18:00", "end": "19:00"}
    policy = configured(maintenance={"only_in": [morning, evening]})
    day = (2026, 11, 23)
    assert [policy.frozen(at("UTC", *day, hour)) is None for hour in (8, 12, 18)] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC"])
def test_a_windows_clock_is_that_of_its_zone_on_every_day_of_the_years_to_come(zone):
    nightly = window(start="22:00", end="23:00", zone=zone)
    for year, month, day in product((2026, 2031, 2055), range(1, 13), (1, 8, 15, 22, 28)):
        assert not nightly.holds(at(zone, year, month, day, 21, 59, 59))
        assert nightly.holds(at(zone, year, month, day, 22))
        assert nightly.holds(at(zone, year, month, day, 22, 59, 59))
        assert not nightly.holds(at(zone, year, month, day, 23))


def test_clocks_change_to_the_second():
    nightly = window(start="01:00", end="02:00", zone="Europe/Berlin")
    back = at("UTC", 2026, 10, 25, 1)  # 03:00 becomes 02:00
    assert nightly.holds(back - 3_600 - 1)
    assert not nightly.holds(back - 1)
    assert not nightly.holds(back)


def test_what_is_denied_wins_over_what_is_allowed():
    hours = [{"start": "08:00", "end": "18:00"}]
    policy = configured(
        maintenance={"only_in": hours, "deny": [{"start": "12:00", "end": "13:00"}]}
    )
    day = (2026, 11, 23)
    assert policy.frozen(at("UTC", *day, 7)) is not None
    assert policy.frozen(at("UTC", *day, 9)) is None
    assert policy.frozen(at("UTC", *day, 12)) is not None
    assert configured().frozen(NOW) is None


# --- the policy itself ----------------------------------------------------------------------------


def test_another_policy_has_another_hash_and_the_same_one_the_same():
    one = configured(mode="auto", maintenance={"deny": [{"start": "22:00", "end": "06:00"}]})
    same = configured(maintenance={"deny": [{"start": "22:00", "end": "06:00"}]}, mode="auto")
    assert one.sha256 == same.sha256
    assert one.sha256 != configured(mode="auto").sha256
    assert one.sha256 != replace(one, stop_total_s=181.0).sha256


def test_every_setting_reaches_the_policy():
    before = configured()
    inputs = {
        "mode": "auto",
        "second_person": False,
        "auto": [{"connect": "lab", "connectors": ["a"], "actions": ["stop"]}],
        "skip_safe_sinks": ["a.B"],
        "sink_data_errors": {"a.B": ["x.Y"]},
        "alert_before_s": 1,
        "start_grace_s": 1,
        "cool_down_s": 1,
        "stop_total_s": 61,
        "probation_s": 1,
        "kill_switch": "x",
        "stop_on": [],
        **{
            section: {name: value}
            for section, name, value in (
                ("budgets", "connector_hour", 1),
                ("blast", "total", 9),
                ("repeat", "failures", 9),
                ("maintenance", "deny", [{"start": "08:00", "end": "09:00"}]),
            )
        },
    }
    assert set(inputs) == set(type(parse_remedy()).model_fields) - {"quarantine", "journal"}
    for name, value in inputs.items():
        assert configured(**{name: value}) != before, name


def parse_remedy():
    return parse(
        {
            "kafka": {"east": {"bootstrap": "a:1"}},
            "connect": [{"name": "lab", "kafka": "east", "url": "http://w:1"}],
        },
        {},
    ).remedy


def test_a_window_that_ends_when_it_begins_is_a_whole_day():
    fridays = Window((4,), 6 * 3600, 6 * 3600)
    assert not fridays.holds(at("UTC", 2026, 11, 27, 5, 59))
    assert fridays.holds(at("UTC", 2026, 11, 27, 6))
    assert fridays.holds(at("UTC", 2026, 11, 28, 5, 59))
    assert not fridays.holds(at("UTC", 2026, 11, 28, 6))


def test_a_clock_goes_as_it_first_did_before_its_first_change():
    clock = Clock(((NOW, 3_600), (NOW + 100, 7_200)))
    assert clock.local(NOW - 1) == NOW - 1 + 3_600
    assert clock.local(NOW + 99) == NOW + 99 + 3_600
    assert clock.local(NOW + 100) == NOW + 100 + 7_200


def test_a_clock_of_which_nothing_is_said_is_that_of_utc():
    assert Clock().local(NOW) == NOW


def test_a_rule_and_a_policy_of_which_nothing_is_said_are_what_configuration_means_by_nothing():
    inputs = configured()
    plain = Policy()
    known = {"skip_safe", "skip_unsafe", "sink_data_errors", "stop_file", "stop_on"}
    for name in {field.name for field in fields(Policy)} - known:
        assert getattr(plain, name) == getattr(inputs, name), name
    assert not Rule("lab", ("a",), ("stop",)).unmanaged
