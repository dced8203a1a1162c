import pytest

from offsetwatch.serve.metrics.exposition import (
    OPENMETRICS_0_0_1,
    OPENMETRICS_1_0_0,
    RANGES_MAX,
    TEXT_0_0_4,
    TEXT_1_0_0,
    choose_format,
    is_gzip_accepted,
)

OM = "application/openmetrics-text"
PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)
PROMETHEUS_3 = (
    f"{OM};version=1.0.0;escaping=allow-utf-8;q=0.6,{OM};version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

CASES = {
    "no header": ("", TEXT_0_0_4),
    "curl": ("*/*", TEXT_0_0_4),
    "browser": ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TEXT_0_0_4),
    "prometheus 3": (PROMETHEUS_3, OPENMETRICS_1_0_0),
    "prometheus 3 with protobuf first": (f"{PROTOBUF};q=0.7,{PROMETHEUS_3}", OPENMETRICS_1_0_0),
    "prometheus 2.26": (f"{OM}; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                        OPENMETRICS_0_0_1),
    "text 0.0.4 by name": ("text/plain;version=0.0.4", TEXT_0_0_4),
    "text 1.0.0 by name": ("text/plain;version=1.0.0", TEXT_1_0_0),
    "text of any version": ("text/plain", TEXT_0_0_4),
    "any text": ("text/*", TEXT_0_0_4),
    "openmetrics of any version": (OM, OPENMETRICS_1_0_0),
    "any application": ("application/*", OPENMETRICS_1_0_0),
    "openmetrics 0.0.1 by name": (f"{OM};version=0.0.1", OPENMETRICS_0_0_1),
    "quoted version": (f'{OM}; version="1.0.0"; charset=utf-8', OPENMETRICS_1_0_0),
    "capitals and spaces": (" Application/OpenMetrics-Text ; Version=1.0.0 ; Q=0.9 , */*;q=0.1",
                            OPENMETRICS_1_0_0),
    "text preferred by quality": (f"{OM};version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.9",
                                  TEXT_0_0_4),
    "0.0.1 preferred by quality": (f"{OM};version=1.0.0;q=0.2,{OM};version=0.0.1;q=0.9",
                                   OPENMETRICS_0_0_1),
    "equal quality goes by order": (f"text/plain;version=0.0.4,{OM};version=1.0.0", TEXT_0_0_4),
    "equal quality, other order": (f"{OM};version=1.0.0,text/plain;version=0.0.4",
                                   OPENMETRICS_1_0_0),
    "a name beats an equal wildcard": (f"*/*,{OM}", OPENMETRICS_1_0_0),
    "the closest range decides, not the best": (f"{OM};version=1.0.0;q=0.1,{OM};q=0.8",
                                                OPENMETRICS_0_0_1),
    "refused by name, allowed by wildcard": (f"{OM};q=0,*/*;q=0.5,text/plain;version=0.0.4;q=0",
                                             TEXT_1_0_0),
    "unknown openmetrics 2.0.0 first": (f"{OM};version=2.0.0;q=0.9,{OM};version=1.0.0;q=0.8",
                                        OPENMETRICS_1_0_0),
    "unknown 2.0.0, then text": (f"{OM};version=2.0.0;q=0.9,text/plain;version=1.0.0;q=0.1",
                                 TEXT_1_0_0),
    "unknown 2.0.0 alone": (f"{OM};version=2.0.0", TEXT_0_0_4),
    "unknown 9.9.9 alone": (f"{OM};version=9.9.9", TEXT_0_0_4),
    "unknown text version alone": ("text/plain;version=7", TEXT_0_0_4),
    "only protobuf": (PROTOBUF, TEXT_0_0_4),
    "only json": ("application/json", TEXT_0_0_4),
    "one refused by name and nothing else": (f"{OM};version=1.0.0;q=0", TEXT_0_0_4),
    "everything refused": ("*/*;q=0", TEXT_0_0_4),
    "quality that is none": (f"{OM};q=high,text/plain;version=1.0.0;q=0.1", TEXT_1_0_0),
    "quality nan": (f"{OM};q=nan,text/plain;version=1.0.0;q=0.1", TEXT_1_0_0),
    "quality above one": (f"{OM};q=7,text/plain;version=1.0.0;q=0.1", TEXT_1_0_0),
    "rubbish": (";;=,,;q=,/;q=0.1,=", TEXT_0_0_4),
}  # fmt: skip


@pytest.mark.parametrize(("accept", "form"), CASES.values(), ids=CASES.keys())
def test_the_best_acceptable_format_is_chosen(accept, form):
    assert choose_format(accept).format is form


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        (f"{OM};version=0.0.1", f"{OM}; version=0.0.1; charset=utf-8"),
        (PROMETHEUS_3, f"{OM}; version=1.0.0; charset=utf-8; escaping=allow-utf-8"),
        (OM, f"{OM}; version=1.0.0; charset=utf-8; escaping=underscores"),
        (
            "text/plain;version=1.0.0;escaping=values",
            "text/plain; version=1.0.0; charset=utf-8; escaping=values",
        ),
        (
            "text/plain;version=1.0.0;escaping=dots",
            "text/plain; version=1.0.0; charset=utf-8; escaping=underscores",
        ),
        (
            f"{OM};version=1.0.0;escaping=evil",
            f"{OM}; version=1.0.0; charset=utf-8; escaping=underscores",
        ),
        (f"{OM};version=2.0.0;escaping=values", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_the_content_type_names_only_what_is_written(accept, content_type):
    assert choose_format(accept).content_type == content_type


def test_a_header_of_thousands_of_ranges_is_cut():
    assert choose_format("a/b," * RANGES_MAX + OM).format is TEXT_0_0_4


@pytest.mark.parametrize(
    ("accept_encoding", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("gzip, deflate, br", True),
        ("deflate, gzip;q=0.1", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity", False),
        ("x-gzipped", False),
        ("br", False),
    ],
)
def test_gzip_is_sent_only_to_those_who_accept_it(accept_encoding, accepted):
    assert is_gzip_accepted(accept_encoding) is accepted
