"""What the pipeline is told of the ends of sources, and by whom."""

from __future__ import annotations

from typing import Any

import pytest

from offsetwatch.cli.history import source_ends
from offsetwatch.cli.history.source_ends import SourceEndsReader
from offsetwatch.cli.remote.read_client import DaemonResponse
from offsetwatch.config import Config
from offsetwatch.config.identity import format_cluster_hashes
from offsetwatch.errors import AccessDenied, MalformedResponse, TargetUnreachable
from offsetwatch.serve.documents.api import encode_connectors
from tests.unit.serve.worlds import full

CONFIG = Config.model_validate(
    {
        "kafka": {"east": {"bootstrap": "east:9092"}},
        "connect": [{"name": "lab", "url": "http://lab:8083", "kafka": "east"}],
    }
)


def encode() -> bytes:
    return encode_connectors(full())


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What it answers, one after the other: a response, or an error."""
    answers: list[Any] = []

    def fetch(listener: object, path: str, timeout_s: float) -> DaemonResponse | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(source_ends, "fetch_document", fetch)
    return answers


def answered(body: bytes, clusters: str | None = None) -> DaemonResponse:
    return DaemonResponse(200, body, clusters or format_cluster_hashes(CONFIG))


def test_samples_are_the_ends_that_the_daemon_has_read(daemon: list[Any]) -> None:
    daemon.append(answered(encode()))
    (sample,) = SourceEndsReader(CONFIG, b"not read")()
    (view,) = (view for view in full().source_ends if view.identity == sample.source_partition)
    assert (sample.connect_cluster, sample.connector) == (view.connect_cluster, view.connector)
    assert (sample.source, sample.kind, sample.end) == (view.source, view.kind, view.end)
    assert (sample.server or "") == view.server
    assert (sample.position, sample.end_position) == (view.position, view.end_position)
    assert (sample.lag_bytes, sample.caught_up) == (view.lag_bytes, view.caught_up)
    assert (sample.read_at, sample.behind_since) == (view.read_at, view.behind_since)


@pytest.mark.parametrize(
    "answer",
    [
        TargetUnreachable("127.0.0.1:9640", "connection refused"),
        None,
        answered(encode(), "kafka/east=00000000"),
    ],
    ids=["none", "older", "of-other-clusters"],
)
def test_without_its_daemon_the_samples_are_those_of_the_start(
    daemon: list[Any], answer: Any
) -> None:
    daemon += [answer, answer]
    reader = SourceEndsReader(CONFIG, encode())
    assert reader() == reader() != ()
    daemon += [answered(encode()), answer]
    assert reader() != ()
    assert reader() == ()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (AccessDenied("127.0.0.1:9640", "HTTP 401"), AccessDenied),
        (answered(b"{"), MalformedResponse),
        (answered(b"[]"), MalformedResponse),
    ],
    ids=["denied", "no-json", "other-json"],
)
def test_a_daemon_that_answers_otherwise_is_an_error(
    daemon: list[Any], answer: Any, error: type[Exception]
) -> None:
    daemon.append(answer)
    with pytest.raises(error):
        SourceEndsReader(CONFIG, encode())()
