"""What Java reads of a properties file, and what librdkafka is told of it."""

from __future__ import annotations

import pytest

from exporter.toolbox.properties import Untranslatable, client_properties, load

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
HERE = {"bootstrap.servers": "a:9092"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a  =  1  \n", {"a": "1  "}),
        ("# no\n! no\n\n   \na=1", {"a": "1"}),
        ("a=1\\\n   ,2\\\r\n\t,3\n", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2\n", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment\n", {"a": "1# no comment"}),
        ("a\\:b\\=c\\ d = e=f:g", {"a:b=c d": "e=f:g"}),
        ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
        ("a=1\na=2\n", {"a": "2"}),
        ("A->B.enabled = true\n", {"A->B.enabled": "true"}),
        ("a=1\rb=2", {"a": "1", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("=x\n", {"": "x"}),
        ("a\vb c\n", {"a\vb": "c"}),
        ("\\\n# no\na=1", {"a": "1"}),
        ("a\\\n\n b=1", {"a": "", "b": "1"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text, expected):
    assert load(text.encode()) == expected


def test_a_file_is_latin_1_whatever_it_was_written_in():
    assert load("a=é".encode()) == {"a": "Ã©"}


def test_a_file_without_security_is_plaintext():
    assert client_properties({**HERE, "ssl.truststore.location": "x.jks"}) == {
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
    assert client_properties(settings) == {
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
    found = client_properties(
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
    assert found["ssl.ca.pem"] == "CA"
    assert found["ssl.certificate.pem"] == "CHAIN"
    assert found["ssl.key.pem"] == "KEY"


def test_a_pkcs12_keystore_is_one_that_librdkafka_reads_too():
    found = client_properties(
        {
            **HERE,
            "security.protocol": "SSL",
            "ssl.keystore.type": "pkcs12",
            "ssl.keystore.location": "/me.p12",
            "ssl.keystore.password": "opens",
        }
    )
    assert found["ssl.keystore.location"] == "/me.p12"
    assert found["ssl.keystore.password"] == "opens"


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
    with pytest.raises(Untranslatable) as refused:
        client_properties({**HERE, **more})
    assert len(refused.value.mistakes) == 1
    assert refused.value.mistakes[0].startswith(named)
    assert "hush" not in str(refused.value)


def test_everything_that_cannot_be_said_is_named_at_once():
    with pytest.raises(Untranslatable) as refused:
        client_properties(
            {
                **HERE,
                "security.protocol": "SASL_SSL",
                "ssl.truststore.location": "t.jks",
                "ssl.keystore.location": "k.jks",
                "sasl.mechanism": "GSSAPI",
            }
        )
    assert len(refused.value.mistakes) == 3
