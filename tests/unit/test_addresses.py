"""Addresses `host:port`, IPv6 among them."""

from __future__ import annotations

import pytest

from offsetwatch.addresses import Address, format_address, is_ipv6, normalize_address, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker-1:9092", Address("broker-1", 9092)),
        ("10.0.0.1:1", Address("10.0.0.1", 1)),
        ("[::1]:9092", Address("::1", 9092)),
        ("[2001:DB8:0::1]:9092", Address("2001:db8::1", 9092)),
        ("[fe80::1%eth0]:9092", Address("fe80::1%eth0", 9092)),
        ("::1:9092", None),
        ("[::1]", None),
        ("[nobody]:1", None),
        ("broker", None),
        ("broker:", None),
        ("broker:0", None),
        ("broker:65536", None),
        ("broker:\u0661", None),
        ("http://broker:1", None),
        ("u@broker:1", None),
        ("", None),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, expected: Address | None) -> None:
    assert parse_address(text) == expected


def test_an_ipv6_address_has_one_spelling_in_which_it_is_compared() -> None:
    for text in ("[::1]:9092", "::1:9092", "[0:0:0:0:0:0:0:1]:9092", "[0::1]:9092"):
        assert normalize_address(text) == "[::1]:9092"
    assert (
        format_address("2001:DB8::1", 9092)
        == format_address("[2001:db8::1]", "9092")
        == "[2001:db8::1]:9092"
    )
    assert normalize_address("[fe80::1%Eth0]:9092") == "[fe80::1%Eth0]:9092"  # a zone has a case
    assert normalize_address("what is none") == "what is none"
    assert is_ipv6("::1")
    assert not is_ipv6("10.0.0.1")


def test_a_host_name_has_no_case_in_a_comparison() -> None:
    assert normalize_address("Broker-1.EXAMPLE.org:9092") == "broker-1.example.org:9092"
    assert format_address("Broker", 9092) == "broker:9092"
