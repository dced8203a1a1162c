"""How a Kubernetes API server is found and asked, and what its answers are worth."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lab.cluster.certificates import Authority
from offsetwatch.clients.kubernetes import access
from offsetwatch.clients.kubernetes.access import KubernetesAccess, find_kubernetes_access
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    Conflict,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    ServerError,
    TargetUnreachable,
    TooManyRequests,
)

V1 = "client.authentication.k8s.io/v1"
ACCESS = KubernetesAccess(url="http://kubernetes.test", token="some-token")


def answering(status: int, body: Any) -> httpx.MockTransport:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.MockTransport(lambda _request: httpx.Response(status, content=content))


# --- where it is ----------------------------------------------------------------------------------


def kubeconfig(path: Path, *, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
    document = {
        "current-context": "here",
        "contexts": [
            {"name": "other", "context": {"cluster": "gone", "user": "gone"}},
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "kafka"}},
        ],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://k.test:6443/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_current_context_of_a_kubeconfig_is_taken(tmp_path: Path) -> None:
    ca = base64.b64encode(b"a certificate").decode()
    cluster = {"server": "https://k.test:6443/", "certificate-authority-data": ca}
    (tmp_path / "client.pem").write_text("ours")
    (tmp_path / "client.key").write_text("its key")
    user = {"token": "t", "client-certificate": "client.pem", "client-key": "client.key"}
    result = find_kubernetes_access(kubeconfig(tmp_path / "config", user=user, cluster=cluster))
    assert (result.url, result.namespace) == ("https://k.test:6443", "kafka")
    assert (result.ca, result.cert, result.key) == ("a certificate", "ours", "its key")
    assert result.headers() == {"Authorization": "Bearer t"}
    assert "Bearer" not in repr(result)
    assert "its key" not in repr(result)


@pytest.mark.parametrize(
    ("user", "cluster", "answer"),
    [
        pytest.param({"exec": {"command": "aws"}}, None, "apiVersion", id="a program"),
        pytest.param({"exec": {"apiVersion": V1}}, None, "command", id="no program"),
        pytest.param(
            {"exec": {"apiVersion": V1, "command": "login", "interactiveMode": "Always"}},
            None,
            "no terminal",
            id="a program that asks",
        ),
        pytest.param(
            {"exec": {"apiVersion": V1, "command": "login", "args": "-v"}},
            None,
            "are lists",
            id="no list of arguments",
        ),
        pytest.param({"auth-provider": {"name": "gcp"}}, None, "no program", id="a provider"),
        pytest.param({"as": "root"}, None, "as is not supported", id="impersonation"),
        pytest.param(
            {"token": "t"},
            {"server": "https://k.test", "insecure-skip-tls-verify": True},
            "insecure-skip-tls-verify",
            id="no check of certificates",
        ),
        pytest.param({"token": "t"}, {"x": 1}, "server is missing", id="no server"),
        pytest.param({"client-key-data": "%"}, None, "client-key", id="no base64"),
    ],
)
def test_a_kubeconfig_that_cannot_be_followed_is_refused_with_what_is_wrong(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any] | None, answer: str
) -> None:
    with pytest.raises(ConfigError, match=answer):
        find_kubernetes_access(kubeconfig(tmp_path / "config", user=user, cluster=cluster))


@pytest.mark.parametrize(
    "line",
    ["!!timestamp no", "!!int ''", "!!bool maybe", '"\\UFFFFFFFF"', "2001-99-99", "[" * 3000],
)
def test_a_kubeconfig_with_a_value_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "config"
    path.write_text(f"secret: {line}\n")
    with pytest.raises(ConfigError, match="config: not YAML: ") as raised:
        find_kubernetes_access(path)
    assert line not in str(raised.value)


def test_a_kubeconfig_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config"
    lines = [f"a{level}: &a{level} [{f'*a{level - 1},' * 9}]" for level in range(1, 9)]
    path.write_text("\n".join(["a0: &a0 x", *lines, "clusters: *a8"]))
    with pytest.raises(ConfigError, match="it refers to its own parts"):
        find_kubernetes_access(path)


def test_a_pod_reads_its_token_again_at_each_request(tmp_path: Path) -> None:
    for name, text in (("token", "one\n"), ("ca.crt", "ca"), ("namespace", "kafka\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    result = find_kubernetes_access(environment=environ, account=tmp_path)
    assert (result.url, result.namespace) == ("https://[fd00::1]:6443", "kafka")
    assert result.headers() == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two\n")
    assert result.headers() == {"Authorization": "Bearer two"}


def test_outside_of_a_pod_a_file_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--kubeconfig"):
        find_kubernetes_access(environment={"HOME": str(tmp_path)}, account=tmp_path)
    config = tmp_path / ".kube" / "config"
    config.parent.mkdir()
    kubeconfig(config, user={"token": "t"})
    assert (
        find_kubernetes_access(environment={"HOME": str(tmp_path)}, account=tmp_path).token == "t"
    )


# --- credentials by a program ---------------------------------------------------------------------


def program(folder: Path, script: str, **entry: Any) -> KubernetesAccess:
    """The access of a kubeconfig that names this program of a shell."""
    path = folder / "login"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    path.chmod(0o700)
    user = {"exec": {"apiVersion": V1, "command": "./login", **entry}}
    cluster = {"server": "http://k.test", "certificate-authority-data": "Y2E="}
    return find_kubernetes_access(kubeconfig(folder / "config", user=user, cluster=cluster))


def credential(**status: str) -> str:
    messages = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(messages)}\nEND"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def authorized(access: KubernetesAccess, status: int = 200) -> str:
    """The Authorization of a request that is answered with this status."""
    reports: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        reports.append(request.headers["Authorization"])
        return httpx.Response(status, json={})

    with suppress(AccessDenied):
        KubeReader(access, transport=httpx.MockTransport(answer)).get("/api")
    return reports[0]


def test_a_program_of_a_kubeconfig_is_run_once_for_its_token(tmp_path: Path) -> None:
    access = program(tmp_path, credential(token="t"))
    assert [authorized(access) for _ in range(3)] == ["Bearer t"] * 3
    assert runs(tmp_path) == 1
    assert authorized(access, 401) == authorized(access) == "Bearer t"
    assert runs(tmp_path) == 2


def test_a_program_is_run_again_once_its_token_has_expired(tmp_path: Path) -> None:
    late = program(tmp_path, credential(token="t", expirationTimestamp="2020-01-01T00:00:00Z"))
    assert [authorized(late) for _ in range(2)] == ["Bearer t"] * 2
    assert runs(tmp_path) == 2
    soon = program(tmp_path, credential(token="t", expirationTimestamp="9999-01-01T00:00:00Z"))
    assert [authorized(soon) for _ in range(2)] == ["Bearer t"] * 2
    assert runs(tmp_path) == 3


def test_a_program_gets_its_arguments_its_environment_and_the_cluster(tmp_path: Path) -> None:
    script = f'echo "$1 $PROFILE $KUBERNETES_EXEC_INFO" > {tmp_path}/told\n'
    access = program(
        tmp_path,
        script + credential(token="t"),
        args=["get-token"],
        env=[{"name": "PROFILE", "value": "lab"}],
        provideClusterInfo=True,
    )
    assert authorized(access) == "Bearer t"
    words = (tmp_path / "told").read_text().split(" ", 2)
    assert words[:2] == ["get-token", "lab"]
    assert json.loads(words[2]) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "http://k.test", "certificate-authority-data": "Y2E="},
        },
    }


def test_a_program_may_give_a_certificate(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue("client")
    cert, key = own.cert.read_text(), own.key.read_text()
    script = credential(clientCertificateData=cert, clientKeyData=key)
    access = replace(program(tmp_path, script), url="https://k.test", ca=None)
    assert access.headers() == {}
    access.context()  # OpenSSL takes it
    assert runs(tmp_path) == 1


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo 'log in first, token=abc' >&2; exit 3", "exec login: exit status 3: log in first"),
        ("echo '{'", "no ExecCredential"),
        (credential(), "neither a token nor a certificate"),
        (credential(clientKeyData="x"), "a key without one"),
        (credential(token="t").replace("/v1", "/v2"), "another apiVersion"),
        ("yes", "more than 262144 bytes"),
        (credential(token="t", expirationTimestamp="0001-01-01T00:00:00"), "no ExecCredential"),
        ("sleep 600 & cat /proc/self/fd/0; wait", "no credentials within 0.5 s"),
        (credential(token="a\nb"), "no header can carry"),
    ],
)
def test_a_program_without_credentials_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, answer: str
) -> None:
    if answer.startswith("no credentials"):
        monkeypatch.setattr(access, "EXEC_TIMEOUT_S", 0.5)
    with pytest.raises(TargetUnreachable, match=answer) as caught:
        KubeReader(program(tmp_path, script), transport=answering(200, {})).get("/api")
    assert "abc" not in str(caught.value)


def test_a_program_that_is_missing_comes_with_its_hint(tmp_path: Path) -> None:
    access = program(tmp_path, "", command="no-such-login", installHint="install it")
    with pytest.raises(TargetUnreachable, match="No such file or directory; install it"):
        KubeReader(access, transport=answering(200, {})).get("/api")


# --- what it answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, AccessDenied),
        (403, AccessDenied),
        (404, NotFound),
        (409, Conflict),
        (422, RemoteRefusal),
        (429, TooManyRequests),
        (500, ServerError),
        (504, ServerError),
        (302, MalformedResponse),
    ],
)
def test_an_answer_that_is_no_yes_is_the_error_it_means_in_the_servers_words(
    status: int, expected: type[ClientError]
) -> None:
    body = {"kind": "Status", "message": 'cannot patch resource, token="abc"'}
    reader = KubeReader(ACCESS, transport=answering(status, body))
    with pytest.raises(expected, match="cannot patch resource") as caught:
        reader.get("/api")
    assert type(caught.value) is expected
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b'{"a":' + b"[" * 100_000])
def test_a_yes_that_is_no_object_is_not_believed(body: bytes) -> None:
    with pytest.raises(MalformedResponse):
        KubeReader(ACCESS, transport=answering(200, body)).get("/api")


@pytest.mark.parametrize("message", [b'"\xff"', b"[" * 100_000], ids=["no UTF-8", "deep"])
def test_a_no_in_words_that_cannot_be_read_is_still_a_no(message: bytes) -> None:
    body = b'{"kind":"Status","message":' + message + b"}"
    with pytest.raises(Conflict):
        KubeReader(ACCESS, transport=answering(409, body)).get("/api")


def test_a_server_that_is_not_there_is_unreachable() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no", request=request)

    with pytest.raises(TargetUnreachable):
        KubeReader(ACCESS, transport=httpx.MockTransport(refuse)).get("/api")


@pytest.mark.parametrize(
    ("served", "taken"),
    [(["v1beta2"], "v1beta2"), (["v1beta2", "v1"], "v1"), (["v1", "v2"], "v1")],
)
def test_the_newest_version_that_is_served_and_known_is_spoken(
    served: list[str], taken: str
) -> None:
    body = {"versions": [{"version": version} for version in served]}
    assert KubeReader(ACCESS, transport=answering(200, body)).strimzi_version() == taken


def test_the_version_is_looked_up_again_once_an_upgrade_has_ended_it() -> None:
    served = ["v1beta2"]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/apis/kafka.strimzi.io":
            return httpx.Response(200, json={"versions": [{"version": name} for name in served]})
        version, _, rest = request.url.path.removeprefix("/apis/kafka.strimzi.io/").partition("/")
        there = version in served and rest.endswith("/pipes")
        return httpx.Response(200 if there else 404, json={"in": version, "items": [version]})

    reader = KubeReader(ACCESS, transport=httpx.MockTransport(answer))
    for version in ("v1beta2", "v1"):
        served[:] = [version]
        assert reader.resource("kafkaconnects", "kafka", "pipes")["in"] == version
        with pytest.raises(NotFound):
            reader.resource("kafkaconnects", "kafka", "gone")


def test_a_server_without_strimzi_says_so() -> None:
    with pytest.raises(NotFound, match="not installed"):
        KubeReader(ACCESS, transport=answering(404, {"message": "no"})).strimzi_version()
    body = {"versions": [{"version": "v1alpha1"}]}
    with pytest.raises(NotFound, match="v1alpha1"):
        KubeReader(ACCESS, transport=answering(200, body)).strimzi_version()


def test_a_list_is_read_to_its_last_page() -> None:
    requests: list[httpx.QueryParams] = []

    def page(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.params)
        more = {"continue": "next"} if "continue" not in request.url.params else {}
        return httpx.Response(200, json={"items": [{"n": len(requests)}], "metadata": more})

    reader = KubeReader(ACCESS, transport=httpx.MockTransport(page))
    assert reader.all("/things", label="a=b") == [{"n": 1}, {"n": 2}]
    assert [params.get("labelSelector") for params in requests] == ["a=b", "a=b"]
    assert requests[1]["continue"] == "next"


def test_a_patch_names_the_version_that_it_was_made_for() -> None:
    sent: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={})

    ops = [{"op": "add", "path": "/spec/state", "value": "stopped"}]
    KubeWriter(ACCESS, transport=httpx.MockTransport(take)).patch("/thing", "42", ops)
    (request,) = sent
    assert (request.method, request.headers["Content-Type"]) == (
        "PATCH",
        "application/json-patch+json",
    )
    first, *rest = json.loads(request.content)
    assert first == {"op": "replace", "path": "/metadata/resourceVersion", "value": "42"}
    assert rest == ops
