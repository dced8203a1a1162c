"""
What a secured lab adds: certificates, a user, and the settings of listeners that ask for both.

The lab's own clients go on using the plaintext listeners; only Connect's REST asks everybody for
the password.
"""

import secrets
from pathlib import Path

from lab.cluster.certificates import Authority, Certificate, java_stores
from lab.cluster.properties_files import Properties
from lab.processes.ports import LOOPBACK

USER = "watcher"
MECHANISM = "SCRAM-SHA-512"
_LISTENER = "SECURED"
_MODULES = "org.apache.kafka.common.security"
_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension"


class Security:
    """
    Files and passwords of one secured lab, in the folder `secured` of its directory.

    A lab that goes on in a directory of its own keeps the password, as the brokers' storage was
    formatted with it; certificates are made anew.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "secured"
        authority = Authority(self._directory)
        self.ca = authority.ca
        self._server = authority.issue("server")
        self.client: Certificate = authority.issue("client")
        self.password_file = self._directory / "password"
        if not self.password_file.exists():
            self.password_file.write_text(secrets.token_urlsafe(16))
        self.password = self.password_file.read_text()
        self._keystore = self._write(
            "server-store.pem", self._server.key.read_text() + self._server.cert.read_text()
        )
        self._stores = java_stores(self._server, self.ca, self._directory, password=self.password)
        credentials = self._write("credentials.properties", f"{USER}={self.password}\n")
        self.login_config = self._write(
            "login.conf",
            f"KafkaConnect {{ {_EXTENSION}.PropertyFileLoginModule required "
            f'file="{credentials}"; }};\n',
        )

    def scram(self) -> str:
        """The argument of `kafka-storage format --add-scram`."""
        return f"{MECHANISM}=[name={USER},password={self.password}]"

    def broker(self, properties: Properties, port: int) -> Properties:
        """A broker's settings with a second listener, SASL over TLS."""
        prefix = f"listener.name.{_LISTENER.lower()}"
        protocols = "listener.security.protocol.map"
        address = f"{_LISTENER}://{LOOPBACK}:{port}"
        return {
            **properties,
            "listeners": f"{properties['listeners']},{address}",
            "advertised.listeners": f"{properties['advertised.listeners']},{address}",
            protocols: f"{properties[protocols]},{_LISTENER}:SASL_SSL",
            f"{prefix}.ssl.keystore.type": "PEM",
            f"{prefix}.ssl.keystore.location": str(self._keystore),
            f"{prefix}.sasl.enabled.mechanisms": f"{MECHANISM},PLAIN,OAUTHBEARER",
            f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": (
                f"{_MODULES}.scram.ScramLoginModule required;"
            ),
            f"{prefix}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{self.password}";'
            ),
            # Takes tokens that nobody signed, which Kafka has for development.
            f"{prefix}.oauthbearer.sasl.jaas.config": (
                f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="broker";'
            ),
        }

    def worker(self, properties: Properties, port: int) -> Properties:
        """A worker's settings with a second listener that wants a client certificate, and basic
        authentication on both.
        """
        return {
            **properties,
            "listeners": f"{properties['listeners']},https://{LOOPBACK}:{port}",
            "rest.advertised.listener": "http",
            "listeners.https.ssl.keystore.type": "PKCS12",
            "listeners.https.ssl.keystore.location": str(self._stores[0]),
            "listeners.https.ssl.keystore.password": self.password,
            "listeners.https.ssl.truststore.type": "PKCS12",
            "listeners.https.ssl.truststore.location": str(self._stores[1]),
            "listeners.https.ssl.truststore.password": self.password,
            "listeners.https.ssl.client.auth": "required",
            "rest.extension.classes": f"{_EXTENSION}.BasicAuthSecurityRestExtension",
        }

    def client_properties(self, port: int, mechanism: str = MECHANISM) -> dict[str, str]:
        """Settings for librdkafka on a broker's secured listener."""
        return {
            "bootstrap.servers": f"{LOOPBACK}:{port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": self.password,
        }

    def _write(self, name: str, text: str) -> Path:
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path
