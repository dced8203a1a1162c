"""What single values change, and which are refused because they do not fit each other."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from lab.kubernetes import chart
from lab.kubernetes.api_server import Json
from offsetwatch.config import RemedyConfig
from tests.chart.reading import (
    LEAST,
    containers,
    of_kind,
    one,
    pods,
    refusable,
    running,
    with_values,
)

LEADING = {"remedy": {"journal": {"kafka": "east"}}}
SHARED = {"accessModes": ["ReadWriteMany"]}
WRONG_TYPE = "got string, want boolean"


# --- what the schema refuses, where it is wrong ---------------------------------------------------


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"histroy": {"enabled": False}}, "at '': additional properties 'histroy' not allowed"),
        ({"history": {"mod": "cronjob"}}, "at '/history': additional properties 'mod' not"),
        ({"history": {"mode": "stream"}}, "at '/history/mode': value must be one of"),
        ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match"),
        ({"image": {"pullPolicy": "always"}}, "at '/image/pullPolicy': value must be one of"),
        ({"replicaCount": -1}, "at '/replicaCount': minimum"),
        ({"replicaCount": "2"}, "at '/replicaCount': got string, want integer"),
        ({"strimzi": {"enabled": "yes"}}, f"at '/strimzi/enabled': {WRONG_TYPE}"),
        ({"strimzi": {"namespaces": ["*"]}}, "at '/strimzi/namespaces/0': '*' does not match"),
        ({"strimzi": {"secretNames": [""]}}, "at '/strimzi/secretNames/0': minLength"),
        ({"containerPort": 70000}, "at '/containerPort': maximum"),
        ({"secretMounts": [{"name": "a"}]}, "at '/secretMounts/0': missing property 'secretName'"),
        ({"extraEnv": [{"value": "a"}]}, "at '/extraEnv/0': missing property 'name'"),
        ({"configFiles": {"a": 1}}, "at '/configFiles/a': got number, want string"),
        ({"webConfig": {"users": {}}}, "at '/webConfig': additional properties 'users' not"),
        ({"serviceMonitor": {"intervall": "1m"}}, "at '/serviceMonitor': additional properties"),
        ({"podMonitor": {"interval": "soon"}}, "at '/podMonitor/interval': 'soon' does not match"),
        ({"persistence": {"size": "much"}}, "at '/persistence/size': 'much' does not match"),
        ({"prometheusRule": {"optional": ["all"]}}, "at '/prometheusRule/optional/0': value must"),
        (
            {"prometheusRule": {"thresholds": {"sink_lag_records": "9"}}},
            "at '/prometheusRule/thresholds/sink_lag_records': got string, want number",
        ),
        ({"probes": {"by": "tcp"}}, "at '/probes/by': value must be one of"),
    ],
)
def test_a_value_that_is_none_is_refused_where_it_is(
    values: dict[str, Any], complaint: str, tmp_path: Path
):
    answer = refusable(values, tmp_path)
    assert answer.failed
    assert complaint in answer.text


# --- what fits no other value --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"replicaCount": 2, "history": {"enabled": False}}, "needs a journal that all share"),
        ({"replicaCount": 2, "config": LEADING}, "one pipeline for each"),
        (
            {
                "replicaCount": 2,
                "config": LEADING,
                "history": {"enabled": False},
                "persistence": {"enabled": True},
            },
            "one volume is of one daemon",
        ),
        ({"config": {"remedy": {"mode": "propose"}}}, "a journal that outlives the pod"),
        ({"config": {"remedy": {"mode": "auto"}}}, "a journal that outlives the pod"),
        ({"history": {"mode": "deployment"}}, "needs ReadWriteMany"),
        ({"history": {"mode": "cronjob"}}, "needs ReadWriteMany"),
        (
            {"history": {"mode": "cronjob", "shared": False, "persistence": {"enabled": False}}},
            "each run would start without the earlier tables",
        ),
        ({"strimzi": {"offsets": {"enabled": True}}}, "strimzi.enabled: is required"),
        ({"strimzi": {"secretNames": ["a"]}}, "strimzi.enabled: is required"),
        (
            {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
            "scraped twice",
        ),
        ({"control": {"enabled": True}}, "config.control has to say who"),
        (
            {"control": {"enabled": True}, "config": {"control": {"tokens": []}}},
            "config.control: needs a web_config_file with TLS",
        ),
        ({"webConfig": {"basic_auth_users": {"a": "b"}}}, "config.own_access: has to say"),
        ({"strategy": {"type": "RollingUpdate"}}, "RollingUpdate lets two daemons overlap"),
        (
            {"control": {"enabled": True}, "config": {"control": {"listen": "0.0.0.0:9999"}}},
            "config.control.listen: leave it out",
        ),
        ({"config": {"listen": "0.0.0.0:80"}}, "config.listen: is set by the chart"),
        ({"config": {"state_dir": "/data"}}, "config.state_dir: is set by the chart"),
        ({"config": {"history": {"path": "/data"}}}, "config.history.path: is set by the chart"),
        ({"config": {"connect": []}}, "config.connect: name at least one"),
        ({"configFiles": {"config.yaml": ""}}, "configFiles: config.yaml is made by the chart"),
        ({"existingSecret": "mine"}, "existingSecret: config, configFiles and webConfig"),
        (
            {"prometheusRule": {"enabled": True, "thresholds": {"sink_lag": 1}}},
            "there is no sink_lag; there are: ",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused_with_what_to_do(
    values: dict[str, Any], complaint: str, tmp_path: Path
):
    answer = refusable(values, tmp_path)
    assert answer.failed
    assert complaint in answer.text


def test_all_that_does_not_fit_is_said_at_once():
    answer = chart.render()
    assert answer.failed
    assert "config.kafka: name at least one" in answer.text
    assert "config.connect: name at least one" in answer.text


def test_a_secret_that_the_chart_cannot_see_may_have_the_journal(tmp_path: Path):
    own = {"existingSecret": "mine", "replicaCount": 2, "history": {"enabled": False}}
    path = tmp_path / "values.yaml"
    assert "needs a journal" in chart.render(chart.values_file(own, path)).text
    own["journalInExistingSecret"] = True
    result = chart.documents(chart.render(chart.values_file(own, path)))
    assert one(result, "Deployment")["spec"]["replicas"] == 2


# --- what they change ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "strategy"),
    [
        ({}, "Recreate"),
        (
            {"replicaCount": 2, "config": LEADING, "history": {"enabled": False}},
            "RollingUpdate",
        ),
    ],
)
def test_two_daemons_without_a_common_journal_never_overlap(
    values: dict[str, Any], strategy: str, tmp_path: Path
):
    result = one(with_values(values, tmp_path), "Deployment")
    assert result["spec"]["strategy"] == {"type": strategy}


def test_another_configuration_is_another_pod_and_another_rule_is_not(tmp_path: Path):
    def sums(values: dict[str, Any]) -> list[str]:
        return [
            pod["metadata"]["annotations"]["checksum/config"]
            for pod in pods(with_values(values, tmp_path))
        ]

    assert sums({}) == sums({"prometheusRule": {"enabled": True}})
    assert sums({}) != sums({"config": {"ends_s": 10}})
    assert sums({}) != sums({"configFiles": {"ca.pem": "another"}})


def probes_of(values: dict[str, Any], path: Path) -> list[Json]:
    result = containers(with_values(values, path))["daemon/offsetwatch"]
    return [result[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]


CERTIFICATE = {"cert_file": "a.pem", "key_file": "b.pem"}


@pytest.mark.parametrize(
    ("web", "scheme"),
    [
        ({}, "HTTP"),
        ({"tls_server_config": CERTIFICATE}, "HTTPS"),
        ({"basic_auth_users": {"ada": "$2y$10$x"}}, None),
        ({"tls_server_config": {**CERTIFICATE, "client_auth_type": "RequireAnyClientCert"}}, None),
    ],
)
def test_probes_know_how_the_listener_is_protected(
    web: dict[str, Any], scheme: str | None, tmp_path: Path
):
    access = {"own_access": {"auth": {"username": "probe", "password": "x"}}}
    for probe in probes_of({"webConfig": web, "config": access}, tmp_path):
        if scheme is None:
            assert probe["exec"]["command"][:2] == ["offsetwatch", "healthcheck"]
        else:
            assert probe["httpGet"]["scheme"] == scheme


def test_a_daemon_that_still_catches_up_is_not_ready_and_reached_all_the_same(tmp_path: Path):
    startup, liveness, readiness = probes_of({}, tmp_path)
    assert startup["httpGet"]["path"] == liveness["httpGet"]["path"] == "/-/healthy"
    assert readiness["httpGet"]["path"] == "/-/ready"
    result = one(with_values({}, tmp_path), "Service")
    assert result["spec"]["publishNotReadyAddresses"] is True


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ({"enabled": False}, {"daemon/offsetwatch"}),
        ({}, {"daemon/offsetwatch", "daemon/history"}),
        (
            {"mode": "deployment", "persistence": SHARED},
            {"daemon/offsetwatch", "pipeline/history"},
        ),
        (
            {"mode": "cronjob", "persistence": SHARED},
            {"daemon/offsetwatch", "pipeline/history", "upkeep/history"},
        ),
    ],
)
def test_there_is_one_pipeline_or_none(history: Json, expected: set[str], tmp_path: Path):
    assert set(containers(running(with_values({"history": history}, tmp_path)))) == expected


@pytest.mark.parametrize(
    ("history", "sees"),
    [
        ({"enabled": False}, False),
        ({}, True),
        ({"mode": "deployment", "persistence": SHARED}, True),
        ({"mode": "deployment", "shared": False}, False),
    ],
)
def test_the_daemon_sees_the_tables_where_the_volume_lets_it(
    history: Json, sees: bool, tmp_path: Path
):
    daemon = containers(with_values({"history": history}, tmp_path))["daemon/offsetwatch"]
    mounts = [mount for mount in daemon["volumeMounts"] if mount["name"] == "history"]
    assert [mount["readOnly"] for mount in mounts] == ([True] if sees else [])


@pytest.mark.parametrize(
    ("history", "suspended"),
    [
        ({"enabled": False}, []),
        ({"persistence": {"enabled": False}}, []),
        ({}, [True]),
        ({"mode": "deployment", "persistence": SHARED}, [True]),
        ({"mode": "cronjob", "persistence": SHARED}, [False]),
    ],
)
def test_upkeep_never_meets_a_stream_at_the_tables(
    history: Json, suspended: list[bool], tmp_path: Path
):
    result = of_kind(with_values({"history": history}, tmp_path), "CronJob")
    upkeep = [job for job in result if job["metadata"]["name"].endswith("-maintain")]
    assert [job["spec"].get("suspend", False) for job in upkeep] == suspended


def test_a_config_map_is_the_kill_switch(tmp_path: Path):
    """Of the name that the configuration has for it unless it says another."""
    result = with_values({}, tmp_path)
    switch = PurePosixPath(RemedyConfig().kill_switch)
    (pod,) = pods(running(result))
    (volume,) = [item for item in pod["spec"]["volumes"] if item["name"] == "stop"]
    assert volume["configMap"] == {"name": "offsetwatch-stop", "optional": True}
    daemon = containers(result)["daemon/offsetwatch"]
    (mount,) = [item for item in daemon["volumeMounts"] if item["name"] == "stop"]
    assert mount["mountPath"] == str(switch.parent)
    assert switch.name == "STOP"


def test_a_pipeline_by_the_clock_reads_what_is_there_and_looks_after_its_tables(tmp_path: Path):
    values = {"history": {"mode": "cronjob", "persistence": SHARED}}
    result = of_kind(with_values(values, tmp_path), "CronJob")
    words = [
        job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"][:3]
        for job in result
    ]
    assert words == [["history", "run", "--available-now"], ["history", "maintain", "--config"]]
    assert {job["spec"]["concurrencyPolicy"] for job in result} == {"Forbid"}


@pytest.mark.parametrize(
    ("strimzi", "roles"),
    [
        ({}, set()),
        ({"enabled": True}, {"discovery"}),
        ({"enabled": True, "offsets": {"enabled": True}}, {"discovery", "offsets"}),
        ({"enabled": True, "secretNames": ["a"]}, {"discovery", "secrets"}),
    ],
)
def test_rights_are_there_only_where_they_were_requested(
    strimzi: Json, roles: set[str], tmp_path: Path
):
    result = of_kind(with_values({"strimzi": strimzi}, tmp_path), "Role")
    assert {role["metadata"]["name"].rpartition("-")[2] for role in result} == roles


def test_only_the_secrets_that_were_named_may_be_read(tmp_path: Path):
    values = {"strimzi": {"enabled": True, "secretNames": ["a", "b"]}}
    rules = [
        rule
        for role in of_kind(with_values(values, tmp_path), "Role")
        for rule in role["rules"]
        if "secrets" in rule["resources"]
    ]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in rules] == [(["a", "b"], ["get"])]


def test_remedies_alone_bring_no_rights(tmp_path: Path):
    values = {
        "config": {"remedy": {"mode": "auto"}},
        "persistence": {"enabled": True},
        "strimzi": {"enabled": True},
    }
    verbs = {
        verb
        for role in of_kind(with_values(values, tmp_path), "Role")
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list"}


def test_without_rbac_create_the_chart_renders_no_roles(tmp_path: Path):
    values = {"strimzi": {"enabled": True}, "rbac": {"create": False}}
    assert of_kind(with_values(values, tmp_path), "Role", "RoleBinding") == []


def test_there_are_roles_in_the_namespaces_that_were_named_and_in_no_other(tmp_path: Path):
    values = {"strimzi": {"enabled": True, "namespaces": ["kafka", "mirrors", "kafka"]}}
    for kind in ("Role", "RoleBinding"):
        result = of_kind(with_values(values, tmp_path), kind)
        assert [role["metadata"]["namespace"] for role in result] == ["kafka", "mirrors"]


def test_naming_strimzis_resource_needs_no_rights(tmp_path: Path):
    """It keeps hands off; nobody asks Kubernetes for that."""
    linked = {**LEAST["config"]["connect"][0], "strimzi": {"namespace": "kafka", "name": "lab"}}
    result = with_values({"config": {"connect": [linked]}}, tmp_path)
    assert of_kind(result, "Role") == []


@pytest.mark.parametrize("keep", [True, False])
def test_a_volume_outlives_its_release_unless_that_is_not_wanted(keep: bool, tmp_path: Path):
    """The journal is on one, and what Kafka no longer has is on the other."""
    values = {
        "persistence": {"enabled": True, "keep": keep},
        "history": {"persistence": {"keep": keep}},
    }
    for claim in of_kind(with_values(values, tmp_path), "PersistentVolumeClaim"):
        policy = claim["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
        assert policy == ("keep" if keep else None), claim["metadata"]["name"]


def test_volumes_outlive_their_release_by_default(tmp_path: Path):
    result = of_kind(
        with_values({"persistence": {"enabled": True}}, tmp_path), "PersistentVolumeClaim"
    )
    assert [entry["metadata"]["annotations"]["helm.sh/resource-policy"] for entry in result] == [
        "keep"
    ] * 2
