"""What librdkafka is told about a secured cluster, in the words of Spark's Kafka client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.security import kafka_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "hunter2"
CA = "-----BEGIN CERTIFICATE-----\nca\n-----END CERTIFICATE-----\n"
CERTIFICATE = CA.replace("ca", "mine")
KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"
SCRAM = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "watcher",
    "sasl.password": SECRET,
}
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "OIDC",
    "sasl.oauthbearer.client.id": "watcher",
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.oauthbearer.token.endpoint.url": "https://id/token",
}
MODULES = "org.apache.kafka.common.security"


def translated(**properties: str) -> dict[str, str]:
    """The options that are about security, without `kafka.`."""
    options = kafka_options("east", {"bootstrap.servers": "a:1", **properties})
    plain = kafka_options("east", {"bootstrap.servers": "a:1"})
    return {
        name.removeprefix("kafka."): value for name, value in options.items() if name not in plain
    }


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(HistoryError) as caught:
        kafka_options("east", {"bootstrap.servers": "a:1", **properties})
    assert caught.value.__cause__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_plaintext_is_nothing_at_all():
    assert translated() == translated(**{"security.protocol": "PLAINTEXT"}) == {}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_username_and_its_password_are_a_login_module(mechanism, module, name):
    properties = {key: value for key, value in SCRAM.items() if key != "sasl.mechanism"}
    assert translated(**properties, **{name: mechanism}) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism.upper(),
        "sasl.jaas.config": (
            f'{MODULES}.{module} required username="watcher" password="{SECRET}";'
        ),
    }


@pytest.mark.parametrize(
    ("password", "written"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ('";x="', r'"\";x=\""'),
        ("a\nb", r'"a\nb"'),
        ("ä; =", '"ä; ="'),
    ],
)
def test_a_password_cannot_end_its_own_quotes(password, written):
    config = translated(**{**SCRAM, "sasl.password": password})["sasl.jaas.config"]
    assert config.endswith(f" password={written};")


def test_certificates_and_keys_are_handed_over_as_text(tmp_path: Path):
    for name, text in (("ca", CA), ("certificate", CERTIFICATE), ("key", KEY)):
        (tmp_path / name).write_text(text)
    expected = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.key.password": SECRET,
    }
    others = {"security.protocol": "ssl", "ssl.key.password": SECRET}
    locations = {
        f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")
    }
    assert translated(**others, **locations) == expected
    texts = {"ssl.ca.pem": CA, "ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY}
    assert translated(**others, **texts) == expected


@pytest.mark.parametrize(("inputs", "expected"), [("none", ""), ("https", "https")])
def test_whether_the_brokers_name_is_checked_is_handed_on(inputs, expected):
    name = "ssl.endpoint.identification.algorithm"
    assert translated(**{"security.protocol": "SSL", name: inputs})[name] == expected


def test_client_credentials_are_those_of_a_token_endpoint():
    more = {"sasl.oauthbearer.scope": "read", "sasl.oauthbearer.extensions": "a=1,b=2"}
    assert translated(**OIDC, **more) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://id/token",
        "sasl.login.callback.handler.class": (
            f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.jaas.config": (
            f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
            f'clientId="watcher" clientSecret="{SECRET}" scope="read" '
            'extension_a="1" extension_b="2";'
        ),
    }


TLS = {"security.protocol": "SSL"}
NO_PEM = str(Path(__file__).with_name("rows.py"))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": SECRET}, "security.protocol"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is required"),
        ({**SCRAM, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({**SCRAM, "sasl.mechanisms": "PLAIN"}, "sasl.mechanism is given too"),
        ({**SCRAM, "sasl.username": ""}, "sasl.username is required"),
        ({**SCRAM, "sasl.kerberos.keytab": SECRET}, "cannot translate sasl.kerberos.keytab"),
        ({"sasl.password": SECRET, "a": SECRET}, "cannot translate a, sasl.password"),
        ({**TLS, "enable.ssl.certificate.verification": "false"}, "verifies always"),
        ({**TLS, "ssl.cipher.suites": SECRET}, "cannot translate ssl.cipher.suites"),
        ({**TLS, "ssl.keystore.location": SECRET}, "cannot translate ssl.keystore.location"),
        ({**TLS, "ssl.ca.location": f"/{SECRET}"}, "ssl.ca.location: No such file"),
        ({**TLS, "ssl.ca.location": "/"}, "ssl.ca.location: Is a directory"),
        ({**TLS, "ssl.ca.location": NO_PEM}, "ssl.ca.location: it is not PEM"),
        ({**TLS, "ssl.key.pem": KEY}, "one needs the other"),
        (
            {
                **TLS,
                "ssl.certificate.pem": CERTIFICATE,
                "ssl.key.pem": KEY.replace("N P", "N RSA P"),
            },
            "not PKCS#8",
        ),
        ({**OIDC, "sasl.oauthbearer.method": "default"}, "method=oidc"),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, "client.secret is required"),
        ({**OIDC, "oauth_cb": SECRET}, "oauth_hook"),
        ({"oauth_cb": SECRET}, "oauth_hook"),
    ],
)
def test_what_cannot_be_translated_is_refused_by_name_and_reason(properties, words):
    assert words in refusal(properties)


@pytest.mark.spark
def test_spark_shows_no_secret_of_its_kafka_client(spark: SparkSession):
    properties = {
        **SCRAM,
        "bootstrap.servers": "127.0.0.1:1",
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.pem": KEY,
        "ssl.key.password": SECRET,
    }
    options = kafka_options("east", properties)
    stream = spark.readStream.format("kafka").options(**options).option("subscribe", "t").load()
    plan = stream._jdf.queryExecution().toString()
    assert "kafka.sasl.jaas.config=*********(redacted)" in plan
    assert SECRET not in plan
    assert not re.search("hunter", plan)
