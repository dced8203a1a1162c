"""Brokers and workers that ask who we are: the same answers, and no secret anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from lab import Lab, LabOptions
from lab.check import compare
from lab.cluster.secured import USER
from lab.faults.recording_proxy import Certified, Recorder
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import unchanged
from lab.waiting import NotYet, until
from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.kafka.clients import KafkaAdmin, TailReader
from offsetwatch.config import Auth, Tls
from offsetwatch.errors import AccessDenied, TargetUnreachable
from offsetwatch.model.topology import TopicPartition
from tests.fakes.tokens import unsigned
from tests.real.conftest import FAST, FAST_CONNECT
from tests.real.daemon_series import becomes, eventually, samples, total

pytestmark = [pytest.mark.real, pytest.mark.full]

READ_S_MAX = 150.0
# MirrorMaker names the brokers by their plaintext addresses, so its flow cannot be matched to these
# clusters and is named.
CONFIG = """\
kafka:
  east: {{bootstrap: "{east}", properties: {properties}}}
  west: {{bootstrap: "{west}", properties: {properties}}}
connect:
  - name: lab
    kafka: east
    urls: ["https://127.0.0.1:{nobody}", "{url}"]
    auth: {{username: {user}, password_file: {password}}}
    tls: {{ca_file: {ca}, cert_file: {cert}, key_file: {key}}}
    offsets_topic: connect-offsets
    {poll}
flows:
  - source: west
    target: east
    upstream: west
    downstream: east
    connect: lab
    connector: mm2-source
    offset_syncs: {{kafka: west, topic: mm2-offset-syncs.east.internal}}
"""
PROPERTIES = (
    "{{security.protocol: SASL_SSL, sasl.mechanism: {mechanism}, sasl.username: {user}, "
    "sasl.password_file: {password}, ssl.ca.location: {ca}}}"
)


@pytest.fixture(scope="module")
def secured() -> Iterator[Lab]:
    with Lab(LabOptions(secured=True)) as running:
        yield running


@contextmanager
def between(lab: Lab) -> Iterator[Recorder]:
    """What stands before the worker, and asks for a certificate as that one does."""
    certified = Certified(lab.security.ca, lab.security.client)
    with unchanged(lab.secured_connect_urls[0], tls=certified) as (recorder,):
        yield recorder


def product_of(lab: Lab, directory: Path, *, url: str, password: Path) -> Product:
    security = lab.security
    properties = PROPERTIES.format(
        mechanism="SCRAM-SHA-512", user=USER, password=password, ca=security.ca
    )
    config = CONFIG.format(
        east=lab.secured_properties("east")["bootstrap.servers"],
        west=lab.secured_properties("west")["bootstrap.servers"],
        properties=properties,
        nobody=free_port(),
        url=url,
        user=USER,
        password=password,
        ca=security.ca,
        cert=security.client.cert,
        key=security.client.key,
        poll=FAST_CONNECT,
    )
    return Product(lab, directory=directory, port=free_port(), extra=FAST, config=config)


@pytest.fixture(scope="module")
def product(secured: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    directory = tmp_path_factory.mktemp("secured")
    with between(secured) as recorder:
        built = product_of(
            secured, directory, url=recorder.url, password=secured.security.password_file
        )
        built.start_daemon()
        yield built
        built.stop()


def said(product: Product) -> str:
    """Everything that a daemon has said of itself: metrics, documents, and all that it wrote."""
    paths = ("/api/v1/connectors", "/api/v1/flows", "/")
    texts = [product.metrics(), *(str(product.get(path)) for path in paths[:2])]
    texts += [file.read_text(errors="replace") for file in product.directory.glob("*.log")]
    return "".join(texts)


def serves(product: Product) -> None:
    """NotYet until the daemon answers at all; it is not going to be ready."""
    try:
        product.metrics()
    except httpx.TransportError as exc:
        raise NotYet(str(exc)) from exc


@pytest.fixture(scope="module")
def filled(secured: Lab, product: Product) -> None:
    """The daemon shows what connectors have copied."""
    secured.append_lines(20)
    secured.produce("west", "orders", 60)
    becomes(product, 60, "mm2_source_log_end_offset", topic="orders")
    becomes(product, 0, "mm2_replication_lag_records")
    becomes(product, 0, "sink_lag_records")


@pytest.mark.usefixtures("filled")
def test_over_scram_and_client_certificates_the_positions_are_those_of_rest_and_brokers(
    secured: Lab, product: Product
) -> None:
    # One that was slow to answer, as on a busy machine, is up again after its next reading.
    eventually(product, "every input up", lambda: {*samples(product, "input_up").values()} == {1.0})
    for tally in (compare.with_rest(product, secured), compare.with_brokers(product, secured)):
        assert tally.mismatches == []
        # Heartbeats never come to rest: what moved meanwhile is looked at and not compared.
        assert tally.compared + tally.moved >= 6
        assert tally.compared >= 4
    assert secured.security.password not in said(product)


@pytest.mark.spark
@pytest.mark.proof
@pytest.mark.usefixtures("filled")
def test_the_pipeline_reads_the_same_brokers_and_says_no_secret(
    secured: Lab, product: Product
) -> None:
    tally = compare.with_pipeline(product)
    assert tally.mismatches == []
    assert tally.compared >= 6
    written = [file for file in product.history.rglob("*") if file.suffix in {".json", ""}]
    texts = (file.read_text(errors="replace") for file in written if file.is_file())
    assert not any(secured.security.password in text for text in texts)


def test_a_wrong_password_lowers_every_input_and_shows_in_no_answer(
    secured: Lab, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("wr0ng-but-secret\n")
    with between(secured) as recorder:
        product = product_of(secured, tmp_path, url=recorder.url, password=password)
        product.start_daemon(ready=False)
        try:
            until("metrics", partial(serves, product), timeout_s=90.0, evidence=product.evidence)
            for kind in ("tail", "connect_rest"):
                labels = {"kind": kind, "reason": "denied"}
                eventually(
                    product,
                    f"{kind} denied",
                    lambda labels=labels: total(product, "input_errors_total", **labels),
                )
                assert total(product, "input_up", kind=kind) == 0
            assert "wr0ng" not in said(product)
        finally:
            product.stop()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
@pytest.mark.parametrize("cluster", ["east", "west"])
def test_every_mechanism_opens_every_broker(secured: Lab, cluster, mechanism) -> None:
    properties: dict[str, Any] = dict(secured.secured_properties(cluster, mechanism))
    if mechanism == "OAUTHBEARER":
        properties = {
            name: value
            for name, value in properties.items()
            if name not in {"sasl.username", "sasl.password"}
        } | {"oauth_cb": unsigned}
    topics, _ = KafkaAdmin(cluster, properties).topics()
    topic = "connect-offsets" if cluster == "east" else "orders"
    assert topic in topics
    reader = TailReader(cluster, properties)
    try:
        reader.assign({TopicPartition(topic, number): 0 for number in range(topics[topic])})

        def probe() -> None:
            if not reader.read(100, 0.2):
                raise NotYet("nothing came")

        until(f"what {topic} holds", probe, timeout_s=READ_S_MAX)
    finally:
        reader.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_broker_that_does_not_know_us_denies(secured: Lab, mechanism) -> None:
    properties = secured.secured_properties("east", mechanism) | {"sasl.password": "wr0ng"}
    with pytest.raises(AccessDenied) as caught:
        KafkaAdmin("east", properties).topics()
    assert "wr0ng" not in str(caught.value)


def test_a_broker_of_an_unknown_authority_is_unreachable_and_says_why(secured: Lab) -> None:
    properties = secured.secured_properties("east")
    del properties["ssl.ca.location"]
    with pytest.raises(TargetUnreachable, match="is not trusted") as raised:
        KafkaAdmin("east", properties).topics()
    assert "ssl.ca.location" in (raised.value.advice or "")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"security.protocol": "PLAINTEXT"}, "speaks TLS"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "speaks TLS"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "does not offer the SASL mechanism SCRAM-SHA-256"),
        ({"sasl.password": "wr0ng"}, "refused the SASL credentials"),
    ],
    ids=["plaintext", "sasl-without-tls", "mechanism", "password"],
)
def test_each_wrong_property_is_named_by_what_the_broker_does(
    secured: Lab, wrong: dict[str, str], says: str
) -> None:
    properties = secured.secured_properties("east") | wrong
    with pytest.raises((TargetUnreachable, AccessDenied), match=says) as raised:
        KafkaAdmin("east", properties).topics()
    assert raised.value.advice is not None


def test_a_worker_wants_both_the_certificate_and_the_password(secured: Lab) -> None:
    security = secured.security
    own = {"cert_file": security.client.cert, "key_file": security.client.key}
    whole = Tls.model_validate({"ca_file": security.ca, **own})
    known = Auth.model_validate({"username": USER, "password_file": security.password_file})

    def root(auth: Auth | None, tls: Tls) -> bytes:
        return ConnectReader("lab", secured.secured_connect_urls, 10.0, auth=auth, tls=tls).root()

    assert b"kafka_cluster_id" in root(known, whole)
    with pytest.raises(AccessDenied, match="HTTP 401"):
        root(None, whole)
    with pytest.raises(AccessDenied, match="HTTP 401"):
        root(Auth.model_validate({"username": USER, "password": "wr0ng"}), whole)
    with pytest.raises(AccessDenied, match="certificate"):
        root(known, Tls.model_validate({"ca_file": security.ca}))
    with pytest.raises(TargetUnreachable, match="not trusted"):
        root(known, Tls.model_validate(own))


@pytest.mark.slow
def test_a_hook_that_has_no_token_at_first_is_queried_again(secured: Lab, capfd) -> None:
    properties: dict[str, Any] = dict(secured.secured_properties("east", "OAUTHBEARER"))
    requests = []

    def hook(config: str) -> tuple[str, float]:
        requests.append(config)
        if not ready:
            raise RuntimeError("s3cret")
        return unsigned(config)

    ready = False
    admin = KafkaAdmin("east", {**properties, "oauth_cb": hook})  # which does not end the daemon
    with pytest.raises(AccessDenied) as caught:
        admin.topics()
    ready = True
    assert "connect-offsets" in admin.topics()[0]
    assert len(requests) >= 3
    assert "s3cret" not in f"{caught.value!r}{capfd.readouterr()}"
