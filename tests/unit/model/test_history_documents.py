"""The document of baselines: what is none is damaged, whatever it is instead."""

from __future__ import annotations

import pytest

from offsetwatch.model.history_documents import (
    Baselines,
    DamagedBaselines,
    decode_baselines,
    encode_baselines,
)


def test_a_document_is_read_as_it_was_written():
    baselines = Baselines(made_at=2.0, until=1.0)
    assert decode_baselines(encode_baselines(baselines)) == baselines


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        encode_baselines(Baselines(made_at=2.0, until=1.0))[:-2],
        encode_baselines(Baselines(made_at=2.0, until=1.0)).replace(b"2.0", b"3.0"),
        b'{"version":1,"sha256":"\xff","body":{}}',
        b'{"version":1,"sha256":"","body":' + b"[" * 100_000,
    ],
    ids=["nothing", "a list", "cut", "changed", "no UTF-8", "deep"],
)
def test_what_is_no_document_is_damaged(document):
    with pytest.raises(DamagedBaselines):
        decode_baselines(document)
