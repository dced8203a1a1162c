"""What every variant of the chart has in common, whatever its values are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from lab.kubernetes import chart
from lab.kubernetes.api_server import Json
from lab.kubernetes.chart import CHART
from offsetwatch import __version__
from offsetwatch.config import Config, parse
from tests.chart.reading import configuration, containers, of_kind, pods
from tests.chart.secrets import substitute_secrets

CONFIG_MAP_BYTES_MAX = 1024 * 1024
OURS = {"offsetwatch", "history"}


def test_helm_finds_nothing_to_complain_about(variant: Path):
    answer = chart.lint(variant)
    assert not answer.failed, answer.text
    assert "0 chart(s) failed" in answer.text


def test_containers_have_no_privileges_and_cannot_write_outside_of_their_volumes(
    rendered: list[Json],
):
    assert containers(rendered)
    for each in containers(rendered).values():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_pods_run_as_a_user_without_a_name_and_leave_modes_of_files_alone(rendered: list[Json]):
    results = [pod["spec"]["securityContext"] for pod in pods(rendered)]
    assert results
    for context in results:
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == 65532
        # Always would make the journal the group's to write, and the daemon refuses such a one.
        assert context["fsGroupChangePolicy"] == "OnRootMismatch"
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_nothing_may_be_deleted_anywhere(rendered: list[Json]):
    for role in of_kind(rendered, "Role"):
        for rule in role["rules"]:
            assert not {"delete", "deletecollection", "*"} & set(rule["verbs"])
            assert "*" not in (*rule["resources"], *rule["apiGroups"])
    assert of_kind(rendered, "ClusterRole", "ClusterRoleBinding") == []


def test_a_selector_says_nothing_that_a_new_version_changes(rendered: list[Json]):
    stable = {
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/component",
    }
    selectors = [
        document["spec"]["selector"].get("matchLabels", document["spec"]["selector"])
        for document in of_kind(
            rendered, "Deployment", "Service", "PodDisruptionBudget", "ServiceMonitor", "PodMonitor"
        )
    ]
    assert selectors
    assert all(set(selector) <= stable for selector in selectors)


def test_a_selector_finds_the_pods_it_is_for(rendered: list[Json]):
    labels = [pod["metadata"]["labels"] for pod in pods(rendered)]
    for document in of_kind(rendered, "Deployment", "Service", "PodDisruptionBudget", "PodMonitor"):
        selector = document["spec"]["selector"]
        expected = selector.get("matchLabels", selector).items()
        component = "pipeline" if document["metadata"]["name"].endswith("-pipeline") else "daemon"
        results = [
            each["app.kubernetes.io/component"] for each in labels if expected <= each.items()
        ]
        assert results == [component], document["kind"]


def test_a_config_map_is_as_large_as_kubernetes_takes_it(rendered: list[Json]):
    for document in of_kind(rendered, "ConfigMap"):
        assert len(json.dumps(document.get("data", {})).encode()) < CONFIG_MAP_BYTES_MAX


def test_every_mount_has_its_volume_and_every_volume_is_mounted(rendered: list[Json]):
    for pod in pods(rendered):
        spec = pod["spec"]
        volumes = [volume["name"] for volume in spec["volumes"]]
        assert len(volumes) == len(set(volumes))
        mounted = [mount for each in spec["containers"] for mount in each.get("volumeMounts", ())]
        assert {mount["name"] for mount in mounted} == set(volumes)
        for each in spec["containers"]:
            paths = [mount["mountPath"] for mount in each.get("volumeMounts", ())]
            assert len(paths) == len(set(paths))


def test_the_token_is_mounted_only_where_kubernetes_is_spoken_to(
    rendered: list[Json], variant: Path
):
    expected = yaml.safe_load(variant.read_text()).get("strimzi", {}).get("enabled", False)
    for pod in pods(rendered):
        daemons = pod["metadata"]["labels"]["app.kubernetes.io/component"] == "daemon"
        assert pod["spec"]["automountServiceAccountToken"] is (expected and daemons)
    for account in of_kind(rendered, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def test_only_one_container_writes_to_the_tables(rendered: list[Json]):
    writers = [
        name
        for name, each in containers(rendered).items()
        for mount in each["volumeMounts"]
        if mount["name"] == "history" and not mount.get("readOnly")
    ]
    assert all(name.endswith("/history") for name in writers)


def test_images_have_the_version_of_the_chart(rendered: list[Json]):
    for name, each in containers(rendered).items():
        image = each["image"]
        if "@sha256:" not in image:
            target = "pipeline" if name.endswith("/history") else "daemon"
            assert image == f"offsetwatch:{__version__}-{target}"


def test_the_rendered_configuration_is_one_that_the_product_takes(
    rendered: list[Json], variant: Path, tmp_path: Path
):
    if "existingSecret" in yaml.safe_load(variant.read_text()):
        assert of_kind(rendered, "Secret") == []
        return
    document, environment = substitute_secrets(rendered, tmp_path)
    config = parse(document, environment, source="config.yaml", folder=tmp_path)
    daemon = containers(rendered)["daemon/offsetwatch"]
    assert isinstance(config, Config)
    assert config.listen.endswith(f":{daemon['ports'][0]['containerPort']}")
    folders = [mount["mountPath"] for mount in daemon["volumeMounts"] if "readOnly" not in mount]
    assert str(Path(config.state_dir).parent) in folders
    for each in containers(rendered).values():
        path = configuration(rendered)["history"]["path"]
        if each["name"] == "history":
            assert path in [mount["mountPath"] for mount in each["volumeMounts"]]


def test_no_manifest_is_left_without_a_namespace_or_our_labels(rendered: list[Json], variant: Path):
    own = yaml.safe_load(variant.read_text()).get("strimzi", {}).get("namespaces", [])
    extra = re.compile(r"-(extra|text)$")
    for document in rendered:
        metadata = document["metadata"]
        if not extra.search(metadata["name"]):
            assert metadata["namespace"] in {"monitoring", *own}
            assert metadata["labels"]["app.kubernetes.io/instance"] == chart.RELEASE
            assert metadata["labels"]["helm.sh/chart"] == f"{CHART.name}-{__version__}"
