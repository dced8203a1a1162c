"""Questions to a broker that answers, and knows no broker of its cluster.

In a process of its own: an answer that librdkafka takes badly is the end of the process.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from offsetwatch.model.topology import TopicPartition
from tests.fakes.broker import MockBroker

QUESTIONS = ("addresses", "topics", "cluster")

ASK = """
import sys

from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.errors import LeaderNotAvailable
from tests.fakes.fenced_broker import fenced_broker

with fenced_broker() as broker:
    kafka = KafkaInspector("east", {"bootstrap.servers": broker.address})
    ask = getattr(kafka, sys.argv[1])
    assert broker.address in str(ask())
    broker.fenced.set()
    try:
        print(ask())
    except LeaderNotAvailable as exc:
        print(exc)
"""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_broker_that_knows_no_broker_is_no_answer(question: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ASK, question],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (
        0,
        "east: the broker that answers knows no broker of its cluster\n",
    ), ran.stderr


def test_addresses_come_with_one_topic_of_which_log_ends_were_read() -> None:
    broker = MockBroker()
    try:
        for topic in ("read", "other"):
            broker.produce(topic, b"k", b"v")
        kafka = broker.admin()
        before = kafka.addresses()
        assert sorted(kafka._logs.metadata(10.0).topics) == ["other", "read"]
        kafka.bounds((TopicPartition("read", 0),), stable=False)
        assert list(kafka._logs.metadata(10.0).topics) == ["read"]
        assert kafka.addresses() == before == {broker.bootstrap}
    finally:
        broker.stop()
