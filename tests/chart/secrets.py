"""Stand-ins for what Kubernetes would mount into a pod, so that the product can look at a rendered
configuration. Called by the tests of the chart.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from lab.cluster.certificates import Authority
from lab.kubernetes.api_server import Json
from tests.chart.reading import configuration, containers, one

MOUNTED = "/run/secrets/offsetwatch"


def substitute_secrets(rendered: Iterable[Json], folder: Path) -> tuple[Json, dict[str, str]]:
    """The configuration, and the environment, as a container would have them below `folder`."""
    documents = list(rendered)
    certificate = Authority(folder / "pki").issue("listener")
    texts = one(documents, "Secret")["stringData"]
    for name, text in texts.items():
        (folder / name).write_text(text.replace(MOUNTED, str(folder / "mounted")))
    for pod_mount in containers(documents)["daemon/offsetwatch"]["volumeMounts"]:
        path = pod_mount["mountPath"]
        if path.startswith(MOUNTED):
            at = folder / "mounted" / path.removeprefix(f"{MOUNTED}/")
            at.mkdir(parents=True)
            for name in ("password", "probe-password"):
                (at / name).write_text("a password\n")
            (at / "tls.crt").write_text(certificate.cert.read_text())
            (at / "tls.key").write_text(certificate.key.read_text())
    assert configuration(documents)
    document: Json = yaml.safe_load((folder / "config.yaml").read_text())
    environment = {
        each["name"]: each.get("value", f"the {each['name']}")
        for each in containers(documents)["daemon/offsetwatch"]["env"]
    }
    return document, environment
