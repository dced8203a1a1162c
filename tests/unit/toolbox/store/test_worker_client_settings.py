"""What librdkafka is told of a properties file."""

from __future__ import annotations

import pytest

from offsetwatch.toolbox.store.worker_config import (
    UntranslatableSettings,
    translate_client_settings,
)

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


def test_pem_that_stands_in_the_file_itself_is_translated():
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
