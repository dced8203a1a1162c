import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from offsetwatch.model.connectors import Task
from offsetwatch.serve.metrics.catalog import CATALOG
from offsetwatch.serve.metrics.exposition import (
    FORMATS,
    OPENMETRICS_0_0_1,
    OPENMETRICS_1_0_0,
    TEXT_0_0_4,
    TEXT_1_0_0,
    Encoder,
    Exposition,
    _format_header,
)
from offsetwatch.serve.metrics.families import collect_families
from offsetwatch.serve.metrics.metric import Family, LabelColumns, MetricSpec, build_family
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.serve.worlds import (
    BUILD,
    FORGOTTEN,
    MIRROR,
    RELOADED,
    SINK,
    SYNC,
    connector,
    expected,
    full,
    number,
    source,
)

every_format = pytest.mark.parametrize("form", FORMATS, ids=str)


def parsed(body, form):
    """{(sample name, labels): value}, by prometheus-client's own parsers; asserts no repetition."""
    parse = parse_openmetrics if form.openmetrics else parse_text
    samples = {}
    for family in parse(body.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def parse_own(body, form):
    """The parsed samples without those of the process."""
    return {key: value for key, value in parsed(body, form).items() if key[0].startswith("offsetw")}


def rendered(snapshot, form=TEXT_0_0_4):
    return Exposition(BUILD, lambda: RELOADED).render(snapshot, form)


@every_format
def test_every_sample_says_what_the_snapshot_says_and_there_is_no_other(form):
    assert parse_own(rendered(full(), form), form) == expected(full())


@every_format
def test_a_second_render_of_an_equal_snapshot_is_the_same(form):
    exposition = Exposition(BUILD, lambda: RELOADED)
    exposition.render(full(), form)
    assert parse_own(exposition.render(full(), form), form) == expected(full())


@every_format
def test_help_and_type_of_every_family_are_those_of_the_catalogue(form):
    parse = parse_openmetrics if form.openmetrics else parse_text
    results = {family.name: family for family in parse(rendered(full(), form).decode())}
    for spec in CATALOG:
        family = results[spec.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (spec.kind, spec.help)


def test_openmetrics_ends_as_it_must_and_names_counter_families_without_total():
    for form in (OPENMETRICS_1_0_0, OPENMETRICS_0_0_1):
        body = rendered(full(), form).decode()
        assert body.endswith("\n# EOF\n")
        assert body.count("# EOF") == 1
        assert "_created" not in body
        assert "# TYPE offsetwatch_source_offset_commits counter\n" in body
        assert "\n\n" not in body


def test_text_has_no_end_marker_and_names_counter_families_with_total():
    for form in (TEXT_0_0_4, TEXT_1_0_0):
        body = rendered(full(), form).decode()
        assert "# EOF" not in body
        assert "_created" not in body
        assert "# TYPE offsetwatch_source_offset_commits_total counter\n" in body
        assert body.endswith("\n")


@every_format
def test_the_process_metrics_of_prometheus_client_are_appended(form):
    names = {name for name, _ in parsed(rendered(EMPTY_SNAPSHOT, form), form)}
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes"} <= names


def test_integers_stay_integers_and_timestamps_keep_their_milliseconds():
    view = source("{}", "p", number("n", 2**53), commits=0)
    lines = rendered(replace(EMPTY_SNAPSHOT, source_partitions=(view,))).decode().splitlines()
    name = 'connect_cluster="lab",connector="files",source_partition="p"'
    assert f'offsetwatch_source_offset_position{{{name},field="n"}} 9007199254740992' in lines
    assert f"offsetwatch_source_offset_commits_total{{{name}}} 0" in lines
    assert (
        f"offsetwatch_source_offset_last_commit_timestamp_seconds{{{name}}} 1763712000.123" in lines
    )


# --- equal to prometheus-client -------------------------------------------------------------------


class Reference:
    """The same families, written by prometheus-client."""

    def __init__(self, snapshot):
        self._snapshot = snapshot

    def collect(self):
        for family in collect_families(self._snapshot, BUILD, RELOADED):
            make = CounterMetricFamily if family.spec.kind == "counter" else GaugeMetricFamily
            metric = make(family.spec.name, family.spec.help, labels=family.spec.labels)
            for labels, value in family.rows():
                metric.add_metric(labels, value)
            yield metric


@pytest.mark.parametrize(
    ("form", "generate"),
    [(TEXT_0_0_4, generate_latest), (OPENMETRICS_1_0_0, generate_openmetrics)],
    ids=["text", "openmetrics"],
)
def test_the_output_equals_that_of_prometheus_client(form, generate):
    registry = CollectorRegistry()
    registry.register(Reference(full()))
    assert parse_own(rendered(full(), form), form) == parsed(generate(registry), form)


# --- text that needs care -------------------------------------------------------------------------

nasty = st.text(alphabet=st.sampled_from('\\"\n\r\t ,={}#%nä€𝄞\x00\x85\u2028')) | st.text()


@every_format
@given(values=st.lists(nasty, min_size=1, max_size=4, unique=True))
def test_a_label_value_comes_back_as_it_went_in(form, values):
    views = tuple(source("{}", value, number("n", 1)) for value in values)
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=views)
    assert parse_own(rendered(snapshot, form), form) == expected(snapshot)


@given(name=nasty, topic=nasty, state=nasty, reason=nasty)
def test_every_kind_of_label_is_escaped(name, topic, state, reason):
    snapshot = replace(
        EMPTY_SNAPSHOT,
        connectors=(connector(name, state, (Task(0, state),)),),
        mirror_partitions=(replace(MIRROR, connector=name, topic=topic),),
        syncs=(replace(SYNC, topic=topic),),
        sink_partitions=(replace(SINK, topic=topic),),
        dropped=((reason, 1),),
    )
    for form in (TEXT_0_0_4, OPENMETRICS_1_0_0):
        assert parse_own(rendered(snapshot, form), form) == expected(snapshot)


@given(text=st.text(alphabet=st.sampled_from('\\"\n nab"'), max_size=12))
def test_a_help_text_comes_back_as_it_went_in(text):
    spec = MetricSpec(name="x_total", kind="counter", help=f"a{text}z", labels=())
    for form, parse in ((TEXT_0_0_4, parse_text), (OPENMETRICS_1_0_0, parse_openmetrics)):
        end = "# EOF\n" if form.openmetrics else ""
        (family,) = parse(_format_header(spec, form).decode() + "x_total 1\n" + end)
        assert family.documentation == spec.help


def test_a_quote_in_a_help_text_is_escaped_in_openmetrics_alone():
    spec = MetricSpec(name="x", kind="gauge", help='a "b" \\ c.', labels=())
    assert _format_header(spec, TEXT_0_0_4).startswith(b'# HELP x a "b" \\\\ c.\n')
    assert _format_header(spec, OPENMETRICS_1_0_0).startswith(b'# HELP x a \\"b\\" \\\\ c.\n')


def test_a_lone_surrogate_costs_its_own_character_and_nothing_else():
    views = (source("{}", "a\ud800b", number("n", 1)), source("{}", "a\udfffb", number("n", 2)))
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=views)
    result = parse_own(rendered(snapshot), TEXT_0_0_4)
    labels = {dict(key[1]).get("source_partition") for key in result} - {None}
    assert labels == {"a\N{REPLACEMENT CHARACTER}b"}


def written(family: Family) -> str:
    ((_, lines),) = Encoder().bodies([family])
    return b"".join(lines).decode()


def test_numbers_that_are_no_numbers_have_the_names_of_the_format():
    spec = MetricSpec(name="x", kind="gauge", help="h.", labels=("at",))
    numbers = [math.nan, math.inf, -math.inf, 1, 0.5]
    labels = [(str(n),) for n in range(len(numbers))]
    body = written(Family(spec, labels, numbers))
    assert [line.split(" ")[1] for line in body.splitlines()] == ["NaN", "+Inf", "-Inf", "1", "0.5"]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53))
def test_a_number_comes_back_exactly(value):
    family = Family(MetricSpec(name="x", kind="gauge", help="h.", labels=()), [()], [value])
    (result,) = parse_text(written(family))
    assert result.samples[0].value == value


# --- one series once ------------------------------------------------------------------------------


@every_format
def test_two_source_partitions_with_one_label_are_shown_as_the_first_of_them(form):
    first = source('{"p":0}', "p=0", number("n", 10), commits=1)
    second = source('{"p":"0"}', "p=0", number("n", 20), commits=2)
    other = source('{"p":1}', "p=1", number("n", 30), commits=3)
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=(first, second, other))
    exposition = Exposition(BUILD, lambda: RELOADED)
    for _ in range(2):
        assert parse_own(exposition.render(snapshot, form), form) == expected(snapshot)
    moved = replace(
        snapshot,
        source_partitions=(replace(first, offset=number("n", 11)), second, other),
    )
    assert parse_own(exposition.render(moved, form), form) == expected(moved)
    alone = replace(snapshot, source_partitions=(second, other))
    assert parse_own(exposition.render(alone, form), form) == expected(alone)


def test_a_forgotten_twin_leaves_its_place_to_the_other():
    forgotten = replace(FORGOTTEN, label="p=0", commits=1)
    held = source('{"p":"0"}', "p=0", number("n", 20), commits=2)
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=(forgotten, held))
    result = parse_own(rendered(snapshot), TEXT_0_0_4)
    values = {key[0].removeprefix("offsetwatch_source_offset_"): result[key] for key in result}
    assert values["position"] == 20
    assert values["commits_total"] == 1


# --- what is gone is gone -------------------------------------------------------------------------


@every_format
def test_a_subject_that_vanished_vanishes_and_what_moved_has_moved(form):
    exposition = Exposition(BUILD, lambda: RELOADED)
    exposition.render(full(), form)
    later = replace(
        full(),
        connectors=full().connectors[1:],
        source_partitions=(
            replace(full().source_partitions[0], offset=number("offset", 12_345), commits=8),
        ),
        mirror_partitions=(replace(MIRROR, lag=1, partition=70), MIRROR),
        syncs=(),
    )
    body = exposition.render(later, form)
    assert parse_own(body, form) == expected(later)
    assert b"offset_sync" not in body


series = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=8)


@given(st.lists(series, min_size=1, max_size=6))
def test_any_sequence_of_snapshots_renders_as_each_would_alone(sequence):
    exposition = Exposition(BUILD, lambda: RELOADED)
    for step in sequence:
        views = tuple(
            source(str(n), f"p={label}", number("n", value) if value else None, commits=value)
            for n, (label, value) in enumerate(step)
        )
        snapshot = replace(EMPTY_SNAPSHOT, source_partitions=views)
        assert parse_own(exposition.render(snapshot, TEXT_0_0_4), TEXT_0_0_4) == expected(snapshot)


def test_the_cache_holds_the_series_of_the_last_render_and_no_more():
    exposition = Exposition(BUILD, lambda: RELOADED)
    exposition.render(EMPTY_SNAPSHOT, TEXT_0_0_4)
    empty = exposition.series()
    for generation in range(20):
        views = tuple(
            source("{}", f"generation={generation},p={n}", number("n", n)) for n in range(50)
        )
        exposition.render(replace(EMPTY_SNAPSHOT, source_partitions=views), TEXT_0_0_4)
        assert exposition.series() == empty + 7 * 50
    exposition.render(EMPTY_SNAPSHOT, TEXT_0_0_4)
    assert exposition.series() == empty


# --- the filter -----------------------------------------------------------------------------------


def test_a_name_filter_gives_the_named_families_only():
    lag = "offsetwatch_mm2_replication_lag_records"
    body = Exposition(BUILD, lambda: RELOADED).render(
        full(), TEXT_0_0_4, frozenset({lag, "process_open_fds", "no"})
    )
    assert {name for name, _ in parsed(body, TEXT_0_0_4)} == {lag, "process_open_fds"}


def test_a_counter_is_found_by_its_family_name_in_openmetrics():
    names = frozenset({"offsetwatch_source_offset_commits"})
    body = Exposition(BUILD, lambda: RELOADED).render(full(), OPENMETRICS_1_0_0, names)
    results = {name for name, _ in parsed(body, OPENMETRICS_1_0_0)}
    assert results == {"offsetwatch_source_offset_commits_total"}


def test_a_filtered_render_does_not_spoil_the_next_full_one():
    exposition = Exposition(BUILD, lambda: RELOADED)
    exposition.render(full(), TEXT_0_0_4)
    later = replace(full(), mirror_partitions=(replace(MIRROR, partition=1, lag=5),))
    exposition.render(later, TEXT_0_0_4, frozenset({"offsetwatch_mm2_replication_lag_records"}))
    assert parse_own(exposition.render(later, TEXT_0_0_4), TEXT_0_0_4) == expected(later)


def test_each_family_that_is_requested_alone_has_the_rows_that_it_has_among_all():
    whole = {
        family.spec: list(family.rows()) for family in collect_families(full(), BUILD, RELOADED)
    }
    assert set(CATALOG) <= whole.keys()
    for spec, rows in whole.items():
        alone = collect_families(full(), BUILD, RELOADED, lambda item, spec=spec: item is spec)
        assert [(family.spec, list(family.rows())) for family in alone] == [(spec, rows)]


def test_views_of_metrics_outside_the_request_are_not_read():
    class Untouched(tuple):
        __slots__ = ()

        def __iter__(self):
            raise AssertionError

    snapshot = replace(
        full(), mirror_partitions=Untouched((MIRROR,)), sink_partitions=Untouched((SINK,))
    )
    name = "offsetwatch_source_offset_position"
    body = Exposition(BUILD, lambda: RELOADED).render(snapshot, TEXT_0_0_4, frozenset({name}))
    assert {at for at, _ in parsed(body, TEXT_0_0_4)} == {name}


# --- columns --------------------------------------------------------------------------------------


def test_columns_are_the_rows_that_they_hold():
    columns = LabelColumns(["a", "b", "c"], ["x", "y", "z"])
    assert list(columns.select([True, False, True])) == [("a", "x"), ("c", "z")]
    assert list(columns.repeated([0, 2, 1])) == [("b", "y"), ("b", "y"), ("c", "z")]
    assert list(columns.beside(["1", "2", "3"])) == [
        ("a", "x", "1"),
        ("b", "y", "2"),
        ("c", "z", "3"),
    ]
    assert columns == LabelColumns(["a", "b", "c"], ["x", "y", "z"])
    assert columns != LabelColumns(["a", "b", "c"], ["x", "y", "other"])


def test_a_row_without_a_number_leaves_its_columns():
    spec = MetricSpec(name="x", kind="gauge", help="h.", labels=("at",))
    family = build_family(spec, LabelColumns(["a", "b", "c"]), [1, None, 2**53 + 1])
    assert list(family.rows()) == [(("a",), 1)]


NUMBERS = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-3, 3),
    st.integers(2**53 - 1, 2**53 + 1),
    st.integers(-(2**53) - 1, -(2**53) + 1),
    st.integers(),
)


@given(st.lists(NUMBERS, max_size=8))
def test_a_family_has_the_rows_of_which_a_sample_holds_the_number_exactly(numbers):
    spec = MetricSpec(name="m", kind="gauge", help="", labels=("a",))
    labels = [str(index) for index in range(len(numbers))]
    family = build_family(spec, LabelColumns(labels), numbers)
    exact = [
        ((label,), number)
        for label, number in zip(labels, numbers, strict=True)
        if number is not None and abs(number) <= 2**53
    ]
    assert list(family.rows()) == exact


TEXT = st.text(st.sampled_from(["a", "b", "\\", '"', "\n", "\udc80", "\u00e9"]), max_size=4)
ROWS = st.lists(st.tuples(TEXT, TEXT), max_size=6)


@given(st.lists(ROWS, min_size=1, max_size=4), st.lists(ROWS, min_size=1, max_size=4))
def test_what_is_known_of_label_sets_changes_nothing_that_is_written(before, after):
    """Several families with the same names of labels and other rows, twice by one encoder."""

    def families(scrape):
        for offset, rows in enumerate(scrape):
            spec = MetricSpec(name=f"m{offset}", kind="gauge", help="", labels=("a", "b"))
            yield Family(spec, rows, list(range(len(rows))))

    def written(encoder, scrape):
        return [(spec.name, b"".join(lines)) for spec, lines in encoder.bodies(families(scrape))]

    encoder = Encoder()
    written(encoder, before)
    assert written(encoder, after) == written(Encoder(), after)
    assert written(encoder, after) == [
        item
        for number, rows in enumerate(after)
        for item in written(Encoder(), [[]] * number + [rows])
    ]
