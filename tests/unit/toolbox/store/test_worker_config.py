"""Properties files of real shapes, and what they say of offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetwatch.errors import ConfigError
from offsetwatch.toolbox.store.worker_config import (
    DistributedStorage,
    OffsetEnvelopes,
    StandaloneStorage,
    UntranslatableSettings,
    has_flows,
    read_mirror_clusters,
    read_worker_config,
    translate_client_settings,
)

DISTRIBUTED = """
bootstrap.servers=a:9092,b:9092
group.id=connect
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
key.converter=io.confluent.connect.avro.AvroConverter
"""
STANDALONE = """
bootstrap.servers=a:9092
offset.storage.file.filename=/var/lib/connect.offsets
"""
MIRROR = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
B.security.protocol = SSL
B.offset.flush.interval.ms = 10000
A->B.enabled = true
B->A.enabled = false
"""
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def read(tmp_path: Path):
    def of(text: str, flow: str | None = None, *, translate: bool = True):
        path = tmp_path / "worker.properties"
        path.write_text(text)
        return read_worker_config(path, flow=flow, translate=translate)

    return of


def mistakes(read, text: str, flow: str | None = None) -> str:
    with pytest.raises(ConfigError) as wrong:
        read(text, flow)
    return str(wrong.value)


def test_a_distributed_worker_keeps_its_offsets_in_a_topic(read):
    result = read(DISTRIBUTED)
    assert isinstance(result, DistributedStorage)
    assert result.offsets_topic == "connect-offsets"
    assert result.config_topic == "connect-configs"
    assert result.group == "connect"
    assert result.flush_s == 65.0
    assert result.envelopes == OffsetEnvelopes()
    assert result.client == {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "plaintext"}


def test_blanks_around_values_are_ignored_as_kafka_ignores_them(read):
    text = (
        DISTRIBUTED.replace("a:9092,b:9092", "a:9092 ,\tb:9092 ")
        .replace("=connect-offsets", "=connect-offsets \t")
        .replace("group.id=connect", "group.id=connect ")
    )
    result = read(text)
    assert (result.offsets_topic, result.group) == ("connect-offsets", "connect")
    assert result.bootstrap == result.client["bootstrap.servers"] == "a:9092,b:9092"
    assert read(STANDALONE + "rest.port=7 \nrest.host.name=host ").urls == ("http://host:7",)


def test_servers_are_reported_as_librdkafka_takes_them(read):
    text = DISTRIBUTED.replace("a:9092,b:9092", "PLAINTEXT://a:9092, ::1:9092,[::1]:9093")
    assert read(text).client["bootstrap.servers"] == "a:9092,[::1]:9092,[::1]:9093"


def test_a_flow_is_enabled_by_the_text_as_it_is_written(read):
    # MirrorMakerConfig.clusterPairs parses the original with Boolean.parseBoolean.
    assert "no flow is enabled" in mistakes(
        read, MIRROR.replace("enabled = true", "enabled = true ")
    )
    assert read(MIRROR.replace("enabled = true", "enabled = TRUE")).flow == ("A", "B")


def test_a_standalone_worker_keeps_its_offsets_in_a_file(read):
    result = read(STANDALONE)
    assert isinstance(result, StandaloneStorage)
    assert result.offsets_file == Path("/var/lib/connect.offsets")
    assert result.urls == ("http://127.0.0.1:8083",)


@pytest.mark.parametrize(
    ("line", "urls"),
    [
        ("listeners=http://:9001", ("http://127.0.0.1:9001",)),
        ("listeners=HTTP://0.0.0.0:1,https://host:2", ("http://127.0.0.1:1", "https://host:2")),
        ("listeners=http://[::1]:5", ("http://[::1]:5",)),
        ("rest.port=7", ("http://127.0.0.1:7",)),
        ("rest.port=7\nrest.host.name=host", ("http://host:7",)),
    ],
)
def test_a_standalone_worker_answers_where_it_listens(read, line, urls):
    assert read(STANDALONE + line).urls == urls


def test_a_mirror_maker_keeps_the_offsets_of_a_flow_on_its_target(read):
    result = read(MIRROR)
    assert result.flow == ("A", "B")
    assert result.bootstrap == "b:9092"
    assert result.offsets_topic == "mm2-offsets.A.internal"
    assert result.config_topic == "mm2-configs.A.internal"
    assert result.group == "A-mm2"
    assert result.flush_s == 15.0
    assert result.client["security.protocol"] == "ssl"


def test_the_flow_requested_need_not_be_enabled(read):
    result = read(MIRROR, "B->A")
    assert result.flow == ("B", "A")
    assert result.offsets_topic == "mm2-offsets.B.internal"
    assert result.client == {"bootstrap.servers": "a:9092", "security.protocol": "plaintext"}


def test_storage_settings_above_the_aliases_win_and_client_settings_under_them_do(read):
    result = read(
        MIRROR
        + "B.offset.storage.topic=under\noffset.storage.topic=above\n"
        + "B.config.storage.topic=configs\nB.group.id=workers\nsecurity.protocol=PLAINTEXT\n"
    )
    assert result.offsets_topic == "above"
    assert result.config_topic == "configs"
    assert result.group == "workers"
    assert result.client["security.protocol"] == "ssl"


def test_what_holds_for_all_clusters_holds_for_those_that_say_nothing(read):
    assert read(MIRROR + "security.protocol=SSL\n", "B->A").client["security.protocol"] == "ssl"


def test_of_several_flows_one_has_to_be_named(read):
    text = MIRROR.replace("B->A.enabled = false", "B->A.enabled = true")
    assert "--flow" in mistakes(read, text)
    assert "several flows are enabled, A->B, B->A" in mistakes(read, text)
    assert read(text, "A->B").flow == ("A", "B")
    assert "no flow is enabled" in mistakes(read, MIRROR.replace("= true", "= false"))
    assert "no flow A->C between A, B" in mistakes(read, MIRROR, "A->C")
    assert "this is no MirrorMaker" in mistakes(read, DISTRIBUTED, "A->B")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", OffsetEnvelopes()),
        (
            f"internal.key.converter={JSON}\ninternal.key.converter.schemas.enable=false",
            OffsetEnvelopes(),
        ),
        (f"internal.key.converter={JSON}", OffsetEnvelopes(keys=True)),
        (f"internal.value.converter={JSON}", OffsetEnvelopes(values=True)),
        ("internal.key.converter.schemas.enable=true", OffsetEnvelopes(keys=True)),
    ],
)
def test_envelopes_are_possible_where_a_worker_before_3_0_would_write_them(read, more, expected):
    assert read(DISTRIBUTED + more).envelopes == expected


def test_another_converter_of_offsets_is_refused_by_name(read):
    avro = "io.confluent.connect.avro.AvroConverter"
    answer = mistakes(read, DISTRIBUTED + f"internal.key.converter={avro}")
    assert f"internal.key.converter: {avro}" in answer
    assert "internal.value.converter" not in answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a=b", "group.id: missing"),
        (DISTRIBUTED + "offset.storage.file.filename=/x", "in one of them"),
        (
            DISTRIBUTED.replace("=connect-offsets", "=${env:TOPIC}"),
            "offset.storage.topic: its config provider",
        ),
        (STANDALONE + "listeners=nowhere", "listeners: nowhere"),
        (DISTRIBUTED + "offset.flush.interval.ms=often", "offset.flush.interval.ms"),
        (MIRROR.replace("b:9092", ""), "bootstrap.servers: missing"),
    ],
)
def test_a_file_that_does_not_say_it_is_a_mistake_with_its_name(read, text, answer):
    assert answer in mistakes(read, text)


def test_a_file_that_is_not_there_is_a_mistake(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_worker_config(tmp_path / "none", flow=None, translate=True)


def test_with_a_configured_cluster_its_clients_are_not_inspected(read):
    text = DISTRIBUTED + "security.protocol=SSL\nssl.truststore.location=x.jks\n"
    assert "ssl.truststore.type" in mistakes(read, text)
    assert read(text, translate=False).client is None


def test_no_password_is_shown_with_what_a_file_says(read):
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    result = read(
        DISTRIBUTED
        + "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        + f'sasl.jaas.config={login} username="u" password="hush";\n'
    )
    assert result.client["sasl.password"] == "hush"
    assert "hush" not in repr(result)


def test_what_kafkas_own_providers_fetch_from_files_is_fetched(read, tmp_path):
    (tmp_path / "secrets.properties").write_text("servers=c:9092\nuser=me\n")
    (tmp_path / "password").write_text("hush")
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    provider = "org.apache.kafka.common.config.provider."
    text = (
        DISTRIBUTED.replace("a:9092,b:9092", f"${{file:{tmp_path}/secrets.properties:servers}}")
        + "config.providers=file, dir\n"
        + f"config.providers.file.class={provider}FileConfigProvider\n"
        + f"config.providers.dir.class={provider}DirectoryConfigProvider\n"
        + "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        + f'sasl.jaas.config={login} username="${{file:{tmp_path}/secrets.properties:user}}" '
        + f'password="${{dir:{tmp_path}:password}}";\n'
    )
    result = read(text)
    assert result.bootstrap == "c:9092"
    assert result.client["sasl.username"] == "me"
    assert result.client["sasl.password"] == "hush"
    remaining = mistakes(read, text.replace(":user}", ":none}"))
    assert "sasl.jaas.config: its config provider" in remaining
    outside = text.replace(f"${{dir:{tmp_path}:password}}", f"${{dir:{tmp_path}:../password}}")
    assert "sasl.jaas.config: its config provider" in mistakes(read, outside)


def test_a_mirror_maker_says_where_both_ends_of_its_flows_are(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = west, east, far\n"
        "west.bootstrap.servers = w1:9092, w2:9092\n"
        "east.bootstrap.servers = e:9092\neast.security.protocol = SSL\n"
        "far.bootstrap.servers = f:9092\nfar.security.protocol = SSL\n"
        "far.ssl.truststore.location = /far.jks\n"
    )
    result = read_mirror_clusters(path)
    assert sorted(result) == ["east", "west"]
    assert result["west"].addresses == {"w1:9092", "w2:9092"}
    assert result["east"].properties["security.protocol"] == "ssl"


def test_a_workers_file_names_no_cluster_by_an_alias(tmp_path):
    path = tmp_path / "worker.properties"
    path.write_text(DISTRIBUTED)
    assert read_mirror_clusters(path) == {}
    assert not has_flows(path)
    path.write_text(MIRROR)
    assert has_flows(path)


# --- worker client settings ----------------------------------------------------------------------

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
HERE = {"bootstrap.servers": "a:9092"}


def test_a_file_without_security_is_plaintext():
    assert translate_client_settings({**HERE, "ssl.truststore.location": "x.jks"}) == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "plaintext",
    }


def test_pem_files_and_a_scram_login_are_translated():
    settings = {
        **HERE,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.key.password": "opens",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.enabled.protocols": "TLSv1.3",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required\n username="me" password="a\\"b;c=d";',
        "offset.storage.topic": "offsets",
    }
    assert translate_client_settings(settings) == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "opens",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'a"b;c=d',
    }


def test_pem_that_is_in_the_file_itself_is_translated():
    result = translate_client_settings(
        {
            **HERE,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "CA",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": "CHAIN",
            "ssl.keystore.key": "KEY",
        }
    )
    assert result["ssl.ca.pem"] == "CA"
    assert result["ssl.certificate.pem"] == "CHAIN"
    assert result["ssl.key.pem"] == "KEY"


def test_a_pkcs12_keystore_is_one_that_librdkafka_reads_too():
    result = translate_client_settings(
        {
            **HERE,
            "security.protocol": "SSL",
            "ssl.keystore.type": "pkcs12",
            "ssl.keystore.location": "/me.p12",
            "ssl.keystore.password": "opens",
        }
    )
    assert result["ssl.keystore.location"] == "/me.p12"
    assert result["ssl.keystore.password"] == "opens"


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"security.protocol": "SSL", "ssl.truststore.location": "t.jks"}, "ssl.truststore.type"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "hush.jks"}, "ssl.keystore.type"),
        ({"security.protocol": "SSL", "ssl.engine.factory.class": "hush"}, "ssl.engine.factory"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{SCRAM} required username="u" password="hush";',
            },
            "sasl.jaas.config",
        ),
        ({"bootstrap.servers": "${file:/hush:servers}"}, "bootstrap.servers"),
        ({"bootstrap.servers": ""}, "bootstrap.servers"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name_and_never_quoted(more, named):
    with pytest.raises(UntranslatableSettings) as refused:
        translate_client_settings({**HERE, **more})
    assert len(refused.value.mistakes) == 1
    assert refused.value.mistakes[0].startswith(named)
    assert "hush" not in str(refused.value)


def test_everything_that_cannot_be_said_is_named_at_once():
    with pytest.raises(UntranslatableSettings) as refused:
        translate_client_settings(
            {
                **HERE,
                "security.protocol": "SASL_SSL",
                "ssl.truststore.location": "t.jks",
                "ssl.keystore.location": "k.jks",
                "sasl.mechanism": "GSSAPI",
            }
        )
    assert len(refused.value.mistakes) == 3
