"""The Helm chart of this tree, rendered by helm or installed on a Kubernetes of the lab.

Nothing is started there (lab/kubernetes/api_server.py): what an installed chart allows and stores
is read, and whoever is to act with its rights takes the token of its ServiceAccount.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from lab.errors import LabError
from lab.kubernetes.api_server import Json, Kubernetes
from tools import kubernetes

CHART: Final = Path(__file__).parents[2] / "helm" / "offsetwatch"
RELEASE: Final = "offsetwatch"
_HELM_S_MAX: Final = 120.0


@dataclass(frozen=True, slots=True)
class Said:
    """What helm said; `failed` where it refused."""

    text: str
    failed: bool


def values_file(values: Mapping[str, Any], path: Path) -> Path:
    """Written down for helm."""
    path.write_text(yaml.safe_dump(dict(values)))
    return path


def lint(*files: Path) -> Said:
    """As strictly as helm can, with these values."""
    return _helm(
        ["lint", "--strict", "--kube-version", _version(), str(CHART), *_format_values(files)]
    )


def render(*files: Path, namespace: str = "default", path: Path = CHART) -> Said:
    """All that helm would install, or why it would not; of a packed chart if one is given."""
    command = ["template", RELEASE, str(path), "--namespace", namespace]
    return _helm([*command, "--kube-version", _version(), *_format_values(files)])


def package(into: Path) -> Path:
    """As it is handed on: one file. Raises LabError with helm's words."""
    answer = _helm(["package", str(CHART), "--destination", str(into)])
    if answer.failed:
        raise LabError(answer.text)
    (path,) = into.glob("*.tgz")
    return path


def documents(answer: Said) -> list[Json]:
    """What was rendered. Raises LabError with helm's words where it refused."""
    if answer.failed:
        raise LabError(answer.text)
    return [result for result in yaml.safe_load_all(answer.text) if result]


@dataclass(frozen=True, slots=True)
class Installed:
    """A release of the chart on a Kubernetes of the lab."""

    kube: Kubernetes
    namespace: str
    release: str
    notes: str

    @property
    def account(self) -> str:
        """The name of its ServiceAccount, unless its values name another."""
        return self.release if "offsetwatch" in self.release else f"{self.release}-offsetwatch"

    def token(self) -> str:
        """As its pods would get one."""
        return self.kube.token_of(self.namespace, self.account)

    def mounted(self, path: Path) -> Path:
        """The folder that its pods would find under /var/run/secrets."""
        return self.kube.mounted(self.namespace, self.account, path)

    def upgrade(self, *files: Path) -> Said:
        """To these values alone."""
        return self._helm(
            ["upgrade", self.release, str(CHART), "--reset-values", *_format_values(files)]
        )

    def rollback(self, revision: int) -> Said:
        """To how it was."""
        return self._helm(["rollback", self.release, str(revision)])

    def uninstall(self) -> Said:
        """Take it away."""
        return self._helm(["uninstall", self.release])

    def _helm(self, words: Sequence[str]) -> Said:
        return _said(self.kube.helm(*words, "--namespace", self.namespace))


def install(
    kube: Kubernetes, *files: Path, namespace: str = "monitoring", release: str = RELEASE
) -> Installed:
    """`helm install` with these values. Raises LabError with helm's words."""
    kube.namespace(namespace)
    words = ["install", release, str(CHART), "--namespace", namespace, *_format_values(files)]
    answer = _said(kube.helm(*words))
    if answer.failed:
        raise LabError(answer.text)
    return Installed(kube, namespace, release, notes=answer.text.partition("NOTES:\n")[2])


def _format_values(files: Sequence[Path]) -> list[str]:
    return [word for file in files for word in ("--values", str(file))]


def _version() -> str:
    """A helm that was built from its module takes itself for one of an old Kubernetes."""
    return kubernetes.KUBERNETES.removeprefix("v")


def _helm(words: Sequence[str]) -> Said:
    done = subprocess.run(
        [str(kubernetes.helm()), *words],
        capture_output=True,
        text=True,
        timeout=_HELM_S_MAX,
        check=False,
    )
    return _said(done)


def _said(done: subprocess.CompletedProcess[str]) -> Said:
    failed = done.returncode != 0
    return Said(done.stdout + (done.stderr if failed else ""), failed)
