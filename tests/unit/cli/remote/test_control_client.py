"""The desk asked through a control listener: the real one, on an office's journal."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.processes.ports import free_port
from offsetwatch.cli import cli
from offsetwatch.cli.plans import approve
from offsetwatch.cli.remote.control_client import (
    BODY_BYTES_MAX,
    ControlEndpoint,
    RemoteRemediationService,
)
from offsetwatch.config import Control
from offsetwatch.errors import (
    AccessDenied,
    ConfigError,
    IncompleteResponse,
    JournalDamaged,
    MalformedResponse,
    RemoteRefusal,
    ServerError,
    SizeLimitExceeded,
    TargetUnreachable,
)
from offsetwatch.remedy.model import service_api
from offsetwatch.remedy.model.driver import StepInspection, StepStatus
from offsetwatch.remedy.model.plan import PartitionOffset, PlanStatus
from offsetwatch.remedy.model.service_api import (
    AlreadyDecided,
    ChangeRecorded,
    JournalCheckPassed,
    KeyReused,
    Mode,
    PlanHashMismatch,
    ProposalAccepted,
    ProposalExpired,
    ProposalRefused,
    RequestedAction,
    RequestTargetNotFound,
    SelfApproval,
)
from offsetwatch.remedy.service import RemediationService
from offsetwatch.serve.control.listener_thread import ControlServer
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.remedy.plans import AT, NEXT, PARTITION, skip_of
from tests.unit.remedy.services import ServiceBench, build_request

PEOPLE = {"ada": "operator", "bob": "operator", "eve": "viewer"}
WISH = build_request(pair=PartitionOffset(PARTITION, NEXT))


def token(name: str) -> str:
    return f"s3cret-{name}-".ljust(40, "x")


@dataclass
class Elsewhere:
    """A daemon's listener, and the files of those who may ask it."""

    bureau: ServiceBench
    url: str
    folder: Path

    def token_file(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(f"{token(name)}\n")
        return path

    def service(self, name: str) -> RemoteRemediationService:
        return RemoteRemediationService(ControlEndpoint(self.url, self.token_file(name)))

    def typed(self, name: str, *arguments: str) -> Result:
        where = ("--url", self.url, "--token-file", str(self.token_file(name)))
        result = CliRunner().invoke(cli, [*arguments, *where])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    bureau = ServiceBench(tmp_path / "state")
    configured = Control.model_validate(
        {
            "tokens": [
                {
                    "name": name,
                    "role": role,
                    "token_sha256": hashlib.sha256(token(name).encode()).hexdigest(),
                }
                for name, role in PEOPLE.items()
            ]
        }
    ).model_copy(update={"listen": "127.0.0.1:0"})
    server = ControlServer(
        configured,
        bureau.office,
        bureau.clock,
        snapshot=lambda: EMPTY_SNAPSHOT,
        report=lambda _seen: None,
    )
    server.start()
    try:
        yield Elsewhere(bureau, f"http://127.0.0.1:{server.port}", tmp_path)
    finally:
        server.stop()


def test_a_remote_service_is_one_for_operators(elsewhere):
    with closing(elsewhere.service("eve")) as far:
        assert far.plans() == ()
        assert far.verify() == JournalCheckPassed(records=0)


CREATE = ("plan", "create", "stop", "--connector", "orders", "--because", "x")


def test_without_connect_the_clusters_of_the_daemon_are_named(elsewhere, monkeypatch):
    known = frozenset({("lab", "orders"), ("west", "files")})
    monkeypatch.setattr(RemediationService, "inventory", lambda _office: known)
    with pytest.raises(ConfigError, match=r"name the Connect cluster: lab, west$"):
        elsewhere.typed("ada", *CREATE)


def test_the_only_cluster_of_the_daemon_need_not_be_named(elsewhere, monkeypatch):
    known = frozenset({("lab", "order")})
    monkeypatch.setattr(RemediationService, "inventory", lambda _office: known)
    with pytest.raises(ConfigError, match=r"no connector orders in lab \(did you mean order\?\)"):
        elsewhere.typed("ada", *CREATE)


RESTART = ("connectors", "restart", "orders", "--only-failed")


def test_a_restart_elsewhere_is_a_plan_that_another_operator_approves(elsewhere):
    done = elsewhere.typed("ada", *RESTART, "--connect", "lab", "--because", "try", "--yes")
    assert done.exit_code == 6
    ((request, by),) = elsewhere.bureau.planner.requests
    assert (request.action, request.connector, request.because, by) == (
        RequestedAction.RESTART_FAILED,
        "orders",
        "try",
        "ada",
    )
    assert "another operator has to approve it" in done.stderr
    assert "plan approve q1 --sha256" in done.stderr
    (row,) = elsewhere.bureau.another().plans()
    assert row.state is PlanStatus.PROPOSED


def test_a_restart_elsewhere_that_one_operator_may_approve_is_followed(elsewhere, monkeypatch):
    elsewhere.bureau.office._second_person = False
    monkeypatch.setattr(approve, "follow_plan", lambda _at, plan_id, pause: {"q1": 1}[plan_id])
    done = elsewhere.typed("ada", *RESTART, "--yes")
    assert done.exit_code == 1
    (row,) = elsewhere.bureau.another().plans()
    assert row.state is PlanStatus.APPROVED


def test_a_restart_elsewhere_that_is_not_confirmed_leaves_no_plan_to_approve(elsewhere):
    done = elsewhere.typed("ada", *RESTART)
    assert done.exit_code == 3
    (row,) = elsewhere.bureau.another().plans()
    assert row.state is PlanStatus.REJECTED


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        (("--dry-run",), "--dry-run is for this host"),
        (("--watch", "5s"), "--watch is for this host"),
        (("--state-dir", "/x"), "--state-dir is for this host"),
    ],
)
def test_what_a_restart_elsewhere_cannot_do_is_refused(elsewhere, option, answer):
    done = elsewhere.typed("ada", *RESTART, *option)
    assert (done.exit_code, elsewhere.bureau.planner.requests) == (2, [])
    assert answer in done.stderr
    done = elsewhere.typed("ada", "connectors", "restart", "orders")
    assert done.exit_code == 2
    assert "add --only-failed" in done.stderr


def test_whatever_is_queried_here_is_reported_as_it_is_reported_there(elsewhere):
    elsewhere.bureau.proposed("p1")
    elsewhere.bureau.proposed("p2")
    near, far = elsewhere.bureau.another(), elsewhere.service("ada")
    far.reject("p2", "", "no")
    for answer in (
        lambda item: item.plans(),
        lambda item: item.plans(PlanStatus.PROPOSED),
        lambda item: item.plan("p1"),
        lambda item: item.plan("p9"),
        lambda item: item.switches(),
        lambda item: item.journal(1, 2),
        lambda item: item.journal(3, 10),
        lambda item: item.verify(),
        lambda item: item.quarantine(),
        lambda item: item.backups(),
    ):
        assert answer(far) == answer(near)


def test_what_was_quarantined_and_backed_up_is_distinguished_from_afar(elsewhere):
    bureau = elsewhere.bureau
    bureau.bench.world.offsets = {PARTITION: AT}
    bureau.bench.runner().run(bureau.approved())
    near, far = bureau.another(), elsewhere.service("eve")
    assert far.quarantine() == near.quarantine() != ()
    (retained,) = near.backups()
    assert far.backups() == (replace(retained, at=round(retained.at, 6)),)  # microseconds
    assert far.plan("p1") == near.plan("p1")


def test_who_queries_is_who_has_the_token_whatever_is_said(elsewhere):
    ada, bob = elsewhere.service("ada"), elsewhere.service("bob")
    answer = ada.propose(WISH, "somebody else")
    assert isinstance(answer, ProposalAccepted)
    assert (answer.new, answer.row.created_by) == (True, "ada")
    assert ada.propose(WISH, "").new is False
    row = answer.row
    assert ada.approve(row.plan_id, row.sha256, "bob", "mine") == SelfApproval()
    assert bob.approve(row.plan_id, "0" * 64, "", "no") == PlanHashMismatch(sha256=row.sha256)
    assert isinstance(bob.approve(row.plan_id, row.sha256, "", "yes"), ChangeRecorded)
    again = AlreadyDecided(state=PlanStatus.APPROVED, by="bob")
    assert bob.approve(row.plan_id, row.sha256, "", "yes") == again
    assert ada.abort(row.plan_id, "", "no") == again
    assert ada.resolve(row.plan_id, "", "no") == again
    (request, by) = elsewhere.bureau.planner.requests[0]
    assert (request.pair, request.because, by) == (WISH.pair, WISH.because, "ada")


def test_every_no_of_the_service_is_reported_as_that(elsewhere):
    ada, bob = elsewhere.service("ada"), elsewhere.service("bob")
    ada.propose(WISH, "")
    assert ada.propose(build_request(action=RequestedAction.STOP), "") == KeyReused()
    assert (
        ada.propose(build_request(action=RequestedAction.STOP, connector="nobody", key="k"), "")
        == RequestTargetNotFound()
    )
    guard = service_api.GuardAnswerRow(guard="g", number=1, answer="deny", said="s")
    no = service_api.ProposalRefused(said="it is paused", guards=(guard,))
    elsewhere.bureau.planner.says = no
    assert (
        ada.propose(build_request(action=RequestedAction.RESTORE, backup="b.json", key="k2"), "")
        == no
    )
    for answer in (ada.reject("p9", "", "x"), ada.abort("p9", "", "x"), ada.resolve("p9", "", "x")):
        assert answer == RequestTargetNotFound()
    assert ada.ack_breaker("lab/orders", "", "x") == RequestTargetNotFound()
    plan = elsewhere.bureau.proposed("p1")
    elsewhere.bureau.clock.advance(4000.0)
    assert bob.approve("p1", plan.sha256, "", "x") == ProposalExpired(at=1_800_003_600.0)


def test_switches_are_set_from_afar(elsewhere):
    ada = elsewhere.service("ada")
    now = elsewhere.bureau.clock.now()
    refused = ada.set_mode(Mode.AUTO, "", "try")
    assert isinstance(refused, ProposalRefused)
    assert "remedy.mode: propose" in refused.said
    ada.set_mode(Mode.OBSERVE, "", "a release")
    ada.pause(now + 10.25, "", "a release")
    result = ada.switches()
    assert result.mode is Mode.OBSERVE
    assert (result.pause.until, result.pause.by) == (now + 10.25, "ada")
    ada.pause(None, "", "for good")
    assert ada.switches().pause.until is None
    ada.unpause("", "go on")
    assert ada.switches().pause is None
    bench = elsewhere.bureau.bench
    bench.world.offsets = {PARTITION: AT}
    bench.world.proven = StepInspection(StepStatus.FOREIGN, "it failed again")
    bench.runner().run(skip_of())
    (breaker,) = ada.switches().breakers
    assert isinstance(ada.ack_breaker(breaker.scope, "", "mended"), ChangeRecorded)


def test_a_role_that_may_not_is_denied(elsewhere):
    elsewhere.bureau.proposed()
    with pytest.raises(AccessDenied, match="your role viewer does not allow this: the role"):
        elsewhere.service("eve").reject("p1", "", "no")
    with pytest.raises(AccessDenied, match="does not know the token that was sent") as caught:
        elsewhere.service("mallory").plans()
    assert "control.tokens" in str(caught.value.advice)
    with pytest.raises(AccessDenied, match="valid bearer token") as caught:
        RemoteRemediationService(ControlEndpoint(elsewhere.url)).plans()
    assert "--token-file" in str(caught.value.advice)


def test_a_listener_without_tls_says_to_write_http(elsewhere):
    secure = elsewhere.url.replace("http:", "https:")
    endpoint = ControlEndpoint(secure, elsewhere.token_file("ada"))
    with pytest.raises(TargetUnreachable) as caught:
        RemoteRemediationService(endpoint).plans()
    assert "_ssl.c" not in str(caught.value)
    assert caught.value.advice == "write http:// in place of https://"


def test_a_listener_without_its_journal_is_reported_as_that(elsewhere):
    elsewhere.bureau.bench.journal.close()
    path = elsewhere.bureau.folder / "journal.sqlite"
    path.write_bytes(b"no database")
    with pytest.raises(JournalDamaged):
        elsewhere.service("ada").plans()


# --- where, and who we are ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://daemon.example.com:9641",
        "ftp://127.0.0.1:9641",
        "127.0.0.1:9641",
        "https://ada:secret@daemon.example.com",
        "https://[::1",
        "https://1.2.3.999:9641",
        "",
    ],
)
def test_an_address_that_would_show_a_token_or_is_none_is_refused(elsewhere, url):
    with pytest.raises(ConfigError, match="--url"):
        RemoteRemediationService(ControlEndpoint(url, elsewhere.token_file("ada")))


def test_a_token_that_others_may_read_is_refused(elsewhere):
    path = elsewhere.token_file("ada")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="--token-file") as caught:
        RemoteRemediationService(ControlEndpoint(elsewhere.url, path))
    assert token("ada") not in str(caught.value)


def test_a_file_of_tls_that_is_none_is_refused(elsewhere, tmp_path):
    token_file = elsewhere.token_file("ada")
    for more, answer in (
        ({"ca_file": tmp_path / "none"}, "--ca-file: cannot be read: No such file or directory"),
        ({"ca_file": token_file}, "--ca-file: cannot be used: it has no certificate in PEM"),
        ({"cert_file": token_file}, "--cert-file or --key-file: cannot be used: one has no PEM"),
    ):
        with pytest.raises(ConfigError, match=answer):
            RemoteRemediationService(ControlEndpoint("https://127.0.0.1:1", **more))


def test_a_malformed_plan_id_is_refused_without_a_request():
    far = RemoteRemediationService(ControlEndpoint(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(ConfigError, match="no plan's id"):
        far.plan("../mode")
    with pytest.raises(TargetUnreachable):
        far.plan("p1")


# --- strangers ------------------------------------------------------------------------------------


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """Somebody who says this to the first who asks; the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(raw)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def http(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (http("200 OK", b"<html>"), MalformedResponse),
        (http("200 OK", b'{"plans": [{}]}'), MalformedResponse),
        (http("200 OK", b'{"plans": "\xff"}'), MalformedResponse),
        (http("200 OK", b'{"plans": ' + b"[" * 100_000), MalformedResponse),
        (http("400 Bad Request", b'{"error":"\xff"}'), RemoteRefusal),
        (http("400 Bad Request", b'{"x":' + b"[" * 100_000), RemoteRefusal),
        (http("302 Found", b""), RemoteRefusal),
        (http("400 Bad Request", b'{"error":"malformed","message":"no"}'), RemoteRefusal),
        (http("403 Forbidden", b"<html>"), AccessDenied),
        (http("502 Bad Gateway", b"<html>"), ServerError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", IncompleteResponse),
        (b"", IncompleteResponse),
        (http("200 OK", b" " * (BODY_BYTES_MAX + 1)), SizeLimitExceeded),
    ],
    ids=[
        "html",
        "other",
        "no UTF-8",
        "deep",
        "no in no UTF-8",
        "deep no",
        "elsewhere",
        "bad",
        "forbidden",
        "proxy",
        "cut",
        "silent",
        "huge",
    ],
)
def test_an_answer_that_is_none_of_a_listener_is_reported_as_what_it_is(raw, error):
    with (
        answering(raw) as url,
        closing(RemoteRemediationService(ControlEndpoint(url))) as far,
        pytest.raises(error),
    ):
        far.plans()


def test_no_answer_to_a_decision_says_to_look_before_querying_again():
    poll = pytest.raises(IncompleteResponse, match="look whether it was done")
    with (
        answering(b"") as url,
        closing(RemoteRemediationService(ControlEndpoint(url))) as far,
        poll,
    ):
        far.approve("p1", "0" * 64, "", "x")


# --- verbs ----------------------------------------------------------------------------------------


def test_plans_are_listed_shown_and_decided_from_afar(elsewhere):
    plan = elsewhere.bureau.proposed()
    listed = json.loads(elsewhere.typed("eve", "plan", "list", "--json").stdout)
    assert [(row["plan_id"], row["stands"]) for row in listed] == [("p1", "proposed")]
    result = elsewhere.typed("eve", "plan", "show", "p1")
    assert "PUT /connectors/orders/stop" in result.stdout
    assert "proposed: skip one record of orders" in re.sub(r"\s+", " ", result.stdout)
    assert f"plan approve p1 --sha256 {plan.sha256} --url {elsewhere.url}" in result.stderr
    done = elsewhere.typed("bob", "plan", "approve", "p1", "--yes", "--no-wait")
    assert done.exit_code == 0, done.output
    assert "plan p1 is approved" in done.stderr
    assert elsewhere.bureau.office.plan("p1").row.state is PlanStatus.APPROVED
    assert elsewhere.typed("bob", "plan", "reject", "p1", "--because", "no").exit_code == 0
    assert elsewhere.typed("bob", "plan", "abort", "p1", "--because", "no").exit_code == 4


def test_the_switches_are_set_from_afar_as_they_are_here(elsewhere):
    assert (
        "the mode is observe" in elsewhere.typed("ada", "mode", "observe", "--because", "x").stderr
    )
    assert elsewhere.typed("ada", "pause", "--indefinitely", "--because", "x").exit_code == 0
    assert "until an operator ends it, by ada" in elsewhere.typed("eve", "mode").stdout
    assert "the pause is over" in elsewhere.typed("ada", "unpause", "--because", "x").stderr
    assert elsewhere.typed("eve", "breaker", "list").exit_code == 0


def test_the_journal_is_read_and_verified_from_afar(elsewhere):
    for number in range(5):
        elsewhere.bureau.proposed(f"p{number}")
    document = json.loads(
        elsewhere.typed("eve", "journal", "tail", "--lines", "2", "--json").stdout
    )
    assert [item["plan_id"] for item in document] == ["p3", "p4"]
    done = elsewhere.typed("eve", "journal", "verify")
    assert (done.exit_code, done.stderr) == (0, "the journal: 5 records, each as it was written\n")
