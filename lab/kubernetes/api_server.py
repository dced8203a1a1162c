"""
A Kubernetes API server of one's own: the real one and its etcd, as two processes on loopback.

There are no kubelets, no controllers and no operator: what is stored is validated, versioned and
guarded by RBAC as everywhere, and nothing is ever started or tidied up by it. What an operator
would do, a test does in its place (lab/kubernetes/strimzi_operator.py).
"""

import base64
import json
import secrets
import ssl
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import httpx
import yaml

from lab.cluster.certificates import Authority
from lab.errors import LabError
from lab.processes.child import Child
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until
from tools import kubernetes
from tools.debian import ToolError

READY_S_MAX: Final = 180.0  # four seconds where nothing else is busy
ESTABLISHED_S_MAX: Final = 60.0
TOKEN_S: Final = 3600
FIELD_MANAGER: Final = "lab"

Json = dict[str, Any]


class Kubernetes:
    """See the module. A context manager, or start() and stop()."""

    def __init__(self, *, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self.url = f"https://{LOOPBACK}:{self._port}"
        self.token = secrets.token_urlsafe(24)
        self._authority = Authority(directory / "pki")
        self.ca = self._authority.ca
        self._children: list[Child] = []
        self.http = self.client(self.token)
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """It serves, and its own roles are there, when this returns."""
        try:
            programs = kubernetes.etcd(), kubernetes.kube_apiserver()
        except ToolError as exc:
            raise LabError(str(exc)) from exc
        etcd_port, peer_port = free_port(), free_port()
        self._children = [
            self._etcd(programs[0], etcd_port, peer_port),
            self._server(programs[1], etcd_port),
        ]
        for child in self._children:
            child.start()
        until("the API server", self._ready, timeout_s=READY_S_MAX, evidence=self._tails)

    def stop(self) -> None:
        """End both. What was stored is gone with the directory."""
        for child in reversed(self._children):
            child.terminate()
        self.http.close()

    # ---- who one is ---------------------------------------------------------------------------

    def client(self, token: str | None) -> httpx.Client:
        """Speaks to it as whoever has this token. For the caller to close."""
        return httpx.Client(
            base_url=self.url,
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(self.ca)),
            trust_env=False,
            timeout=30.0,
        )

    def token_of(self, namespace: str, account: str) -> str:
        """A token of a ServiceAccount, as a pod of it would get."""
        answer = self.http.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            json={"spec": {"expirationSeconds": TOKEN_S}},
        )
        return str(_json(answer)["status"]["token"])

    def mounted(self, namespace: str, account: str, file: Path) -> Path:
        """A folder as Kubernetes mounts it into such a pod: token, ca.crt, namespace."""
        file.mkdir(parents=True, exist_ok=True)
        (file / "token").write_text(self.token_of(namespace, account))
        (file / "ca.crt").write_text(self.ca.read_text())
        (file / "namespace").write_text(namespace)
        return file

    def kubeconfig(
        self, file: Path, *, token: str | None = None, namespace: str = "default"
    ) -> Path:
        """A file for kubectl and helm; of the administrator unless a token is given."""
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "lab",
                    "clusters": [
                        {
                            "name": "lab",
                            "cluster": {
                                "server": self.url,
                                "certificate-authority-data": base64.b64encode(
                                    self.ca.read_bytes()
                                ).decode(),
                            },
                        }
                    ],
                    "users": [{"name": "lab", "user": {"token": token or self.token}}],
                    "contexts": [
                        {
                            "name": "lab",
                            "context": {"cluster": "lab", "user": "lab", "namespace": namespace},
                        }
                    ],
                }
            )
        )
        file.chmod(0o600)
        return file

    # ---- what is there ------------------------------------------------------------------------

    def namespace(self, name: str) -> None:
        """Make one, unless it is there."""
        self.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])

    def definitions(self, files: Iterable[Path]) -> None:
        """Custom resource definitions, of files; served when this returns."""
        documents = [document for file in files for document in _documents(file.read_text())]
        self.apply(documents)
        for document in documents:
            name = document["metadata"]["name"]
            until(name, partial(self._established, name), timeout_s=ESTABLISHED_S_MAX)
        self._plurals.clear()

    def apply(self, documents: Iterable[Mapping[str, Any]]) -> list[Json]:
        """Server-side apply, each as it is; what is stored then."""
        return [
            _json(
                self.http.patch(
                    self.path(document),
                    params={"fieldManager": FIELD_MANAGER, "force": "true"},
                    content=json.dumps(document).encode(),
                    headers={"Content-Type": "application/apply-patch+yaml"},
                )
            )
            for document in documents
        ]

    def get(
        self, api_version: str, kind: str, name: str, namespace: str = "default"
    ) -> Json | None:
        """One object; None if there is none."""
        metadata = {"name": name, "namespace": namespace}
        answer = self.http.get(
            self.path({"apiVersion": api_version, "kind": kind, "metadata": metadata})
        )
        return None if answer.status_code == httpx.codes.NOT_FOUND else _json(answer)

    def merge(
        self, retained: Mapping[str, Any], patch: Mapping[str, Any], *, status: bool = False
    ) -> Json:
        """A merge patch of an object."""
        name = self.path(retained) + ("/status" if status else "")
        return _json(
            self.http.patch(
                name,
                content=json.dumps(patch).encode(),
                headers={"Content-Type": "application/merge-patch+json"},
            )
        )

    def delete(self, retained: Mapping[str, Any]) -> None:
        """An object; nothing if it is gone."""
        answer = self.http.delete(self.path(retained))
        if answer.status_code != httpx.codes.NOT_FOUND:
            _json(answer)

    def path(self, document: Mapping[str, Any]) -> str:
        """Where an object lives."""
        version, kind = str(document["apiVersion"]), str(document["kind"])
        plural, namespaced = self._plural(version, kind)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        metadata = document["metadata"]
        if namespaced:
            root += f"/namespaces/{metadata.get('namespace', 'default')}"
        return f"{root}/{plural}/{metadata['name']}"

    def _plural(self, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._plurals:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for resource in _json(self.http.get(root))["resources"]:
                if "/" not in resource["name"]:
                    results = resource["name"], bool(resource["namespaced"])
                    self._plurals[version, resource["kind"]] = results
        return self._plurals[version, kind]

    # ---- helm ---------------------------------------------------------------------------------

    def helm(self, *words: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Helm against this server, as its administrator; nothing of the caller's own is read."""
        config = self._directory / "kubeconfig"
        if not config.exists():
            self.kubeconfig(config)
        home = self._directory / "helm"
        return subprocess.run(
            [str(kubernetes.helm()), *words],
            env={
                "KUBECONFIG": str(config),
                "HOME": str(home),
                "HELM_CACHE_HOME": str(home / "cache"),
                "HELM_CONFIG_HOME": str(home / "config"),
                "HELM_DATA_HOME": str(home / "data"),
                "PATH": "/usr/bin:/bin",
            },
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    # ---- the processes ------------------------------------------------------------------------

    def _etcd(self, program: Path, port: int, peer_port: int) -> Child:
        client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
        words = [
            str(program),
            "--data-dir",
            str(self._directory / "etcd-data"),
            "--unsafe-no-fsync",
        ]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        words += ["--initial-cluster", f"default={peer}"]
        return Child("etcd", words, directory=self._directory)

    def _server(self, program: Path, etcd_port: int) -> Child:
        own = self._authority.issue("kubernetes")
        accounts = self._authority.issue("accounts")
        tokens = self._directory / "tokens.csv"
        tokens.write_text(f"{self.token},lab,lab,system:masters\n")
        tokens.chmod(0o600)
        flags = {
            "etcd-servers": f"http://{LOOPBACK}:{etcd_port}",
            "secure-port": self._port,
            "bind-address": LOOPBACK,
            "advertise-address": LOOPBACK,
            "cert-dir": self._directory / "certs",
            "tls-cert-file": own.cert,
            "tls-private-key-file": own.key,
            "token-auth-file": tokens,
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": accounts.cert,
            "service-account-signing-key-file": accounts.key,
            "service-cluster-ip-range": "10.0.0.0/24",
            "disable-admission-plugins": "ServiceAccount",  # no controller makes the default ones
            "endpoint-reconciler-type": "none",
        }
        words = [f"--{name}={value}" for name, value in flags.items()]
        return Child("kube-apiserver", [str(program), *words], directory=self._directory)

    def _ready(self) -> None:
        for child in self._children:
            if not child.running:
                raise LabError(child.tail())
        try:
            answer = self.http.get("/readyz")
        except httpx.HTTPError as exc:
            raise NotYet(str(exc)) from exc
        if answer.status_code != httpx.codes.OK:
            raise NotYet(answer.text)

    def _established(self, name: str) -> None:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        conditions = _json(self.http.get(path)).get("status", {}).get("conditions") or []
        reports = {condition["type"]: condition["status"] for condition in conditions}
        if reports.get("Established") != "True":
            raise NotYet(str(reports))

    def _tails(self) -> str:
        return "\n".join(child.tail() for child in self._children)


def _documents(text: str) -> list[Json]:
    return [document for document in yaml.load_all(text, Loader=_Loader) if document]


class _Loader(yaml.SafeLoader):
    """Some definitions have a bare `=` among their values, which YAML 1.1 gives a meaning."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in result if tag != "tag:yaml.org,2002:value"]
    for first, result in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _json(answer: httpx.Response) -> Json:
    """What was answered. Raises LabError with the server's words where it said no."""
    if answer.is_error:
        raise LabError(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}")
    document: Json = answer.json()
    return document
