"""Both clients of Connect asking a world in memory: what they make of it is what they make of a
socket.
"""

from __future__ import annotations

import httpx
import pytest

from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.write.connect import TIMEOUT_S, ConnectReply, ConnectWriter
from offsetwatch.errors import Conflict, IncompleteResponse, ResponseTimeout, TargetUnreachable

URLS = ("http://one:8083", "http://two:8083")
REBALANCE = (
    b'{"error_code":500,"message":"Request cannot be completed because a rebalance is expected"}'
)


class World:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def exchange(self, method, url, path, body, timeout_s):
        self.asked.append((method, url, path, body, timeout_s))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def reader(world):
    return ConnectReader("lab", URLS, 10.0, transport=world)


def writer(world):
    return ConnectWriter("lab", URLS, transport=world)


def test_a_world_in_memory_is_asked_as_a_worker_is():
    world = World((200, b"{}"), (200, b'{"message":"done"}'))
    assert reader(world).offsets("a/b") == b"{}"
    assert writer(world).send("PATCH", "/connectors/a%2Fb/offsets", b"[]") == ConnectReply(
        200, "done"
    )
    assert world.asked == [
        ("GET", URLS[0], "/connectors/a%2Fb/offsets", None, 10.0),
        ("PATCH", URLS[0], "/connectors/a%2Fb/offsets", b"[]", TIMEOUT_S),
    ]


def test_the_next_worker_is_asked_where_there_is_no_connection():
    world = World(httpx.ConnectError("refused"), (204, b""))
    assert writer(world).send("PUT", "/connectors/c/stop").status == 204
    assert [url for _, url, *_ in world.asked] == list(URLS)


@pytest.mark.parametrize(
    ("raised", "meant"),
    [
        pytest.param(httpx.ReadTimeout("slow"), ResponseTimeout, id="no-answer"),
        pytest.param(httpx.ReadError("reset"), IncompleteResponse, id="cut-off"),
        pytest.param(httpx.RemoteProtocolError("half"), IncompleteResponse, id="half-an-answer"),
    ],
)
def test_a_change_whose_answer_is_lost_is_not_repeated_at_the_next_worker(raised, meant):
    world = World(raised)
    with pytest.raises(meant):
        writer(world).send("PUT", "/connectors/c/stop")
    assert len(world.asked) == 1


def test_errors_of_a_world_are_those_of_a_socket():
    with pytest.raises(Conflict):
        reader(World((500, REBALANCE))).tasks("c")
    with pytest.raises(TargetUnreachable):
        reader(World(httpx.ConnectError("a"), httpx.ConnectError("b"))).tasks("c")
