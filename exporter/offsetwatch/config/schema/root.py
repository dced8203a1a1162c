"""Schema of the configuration file. Strict: an unknown key is a mistake.

Keys that end in `_s` are durations: text such as 5m or a number of seconds, converted to seconds.
Defaults that depend on Connect's commit interval assume its default `offset.flush.interval.ms` of
60 s or less. A path is relative to the configuration file's folder; no message about a file repeats
its content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field, SecretStr, StringConstraints

from offsetwatch.addresses import normalize_address
from offsetwatch.config.schema.remediation import RemedyConfig
from offsetwatch.config.schema.sources import Source
from offsetwatch.config.schema.types import (
    Address,
    AlertmanagerUrl,
    Alias,
    ConfigSection,
    CopiedTopic,
    CopyName,
    Duration,
    File,
    Folder,
    Hook,
    Listen,
    LogFile,
    Name,
    Patterns,
    TokenFile,
    Topic,
    Url,
    WebhookUrl,
    WorkerFile,
    ZonedMoment,
    import_function,
    require_form,
)

_SHA256: Final = "the 64 hexadecimal digits that sha256sum prints of the token, in lower case"
_SAN: Final = "a kind and a name, as in dns:alertmanager-1.example.com (or uri:, email:, ip:)"


class ControlPrincipal(ConfigSection):
    """A client that may send requests."""

    name: Name
    """The name in plans and in the journal. A plan cannot be approved under the name that proposed
    it."""
    role: Literal["viewer", "proposer", "approver", "operator", "hook"]
    """viewer reads; proposer also proposes plans; approver also approves and rejects them; operator
    also aborts, resolves, pauses, sets the mode and closes breakers. hook forwards alerts and
    nothing else."""
    connect: list[Name] | None = Field(default=None, min_length=1)
    """Entries under connect whose connectors this client may see and change. Default: all."""
    connectors: Patterns | None = None
    """Connectors that this client may see and change. Default: all. A client with a list cannot
    read the journal, backups and breakers, and cannot pause or set the mode, since those concern
    all."""


class TokenPrincipal(ControlPrincipal):
    """A client that authenticates with a bearer token."""

    token_sha256: Annotated[str, require_form(r"[0-9a-f]{64}", _SHA256)] | None = Field(
        default=None, repr=False
    )
    """The token's SHA-256 in hex (printf %s TOKEN | sha256sum), so that the token itself is not in
    this file. It must be a random one: openssl rand -hex 32."""
    token_file: TokenFile | None = None
    """Instead: a file with the token, of at least 32 characters, readable only by its owner (mode
    0600). It is read again when it changes. A second line may have another token during a
    rotation."""
    expires: ZonedMoment | None = None
    """The moment from which on the token is refused, as 2030-01-31T00:00:00Z."""


class CertificatePrincipal(ControlPrincipal):
    """A client that authenticates with a certificate of client_ca_file in web_config_file."""

    san: Annotated[str, require_form(r"(dns|uri|email|ip):[\x21-\x7e]{1,500}", _SAN)]
    """A subject alternative name of it, exactly, with its kind: dns:, uri:, email: or ip:. The
    common name does not count."""


class PasswordPrincipal(ControlPrincipal):
    """A client that authenticates with a password."""

    user: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """The name under basic_auth_users in web_config_file. This listener refuses a user that has a
    password there and no entry here."""


class Control(ConfigSection):
    """A listener of its own for what changes something. Metrics are not served here."""

    listen: Listen = "127.0.0.1:9641"
    """The address to listen on. An address other than loopback needs a web_config_file with TLS."""
    web_config_file: File | None = None
    """A web config file as of Prometheus and its exporters, with TLS, headers and passwords; read
    again when it changes. Without one: plain HTTP, on loopback only. See docs/web-config.md."""
    tokens: list[TokenPrincipal] = Field(default_factory=list)
    """Clients that authenticate with a bearer token."""
    clients: list[CertificatePrincipal] = Field(default_factory=list)
    """Clients that authenticate with a certificate."""
    users: list[PasswordPrincipal] = Field(default_factory=list)
    """Clients that authenticate with a password of web_config_file."""


class Kafka(ConfigSection):
    """A Kafka cluster: where it answers, and any librdkafka property for the clients."""

    bootstrap: Address
    """host:port, several separated by commas; an IPv6 host in brackets."""
    properties: dict[str, str] = Field(default_factory=dict, repr=False)
    """Properties of librdkafka, all values as strings. NAME_file reads the value of NAME from a
    file; a path (such as ssl.ca.location) is relative to this file."""
    oauth_hook: Hook | None = None
    """A function that fetches tokens for OAUTHBEARER, as confluent-kafka's `oauth_cb`: called with
    the value of sasl.oauthbearer.config, it returns (token, expiry in Unix seconds)."""

    @property
    def addresses(self) -> frozenset[str]:
        """Return the bootstrap servers, each normalized for comparison."""
        return frozenset(normalize_address(address) for address in self.bootstrap.split(","))

    def client_properties(self) -> dict[str, Any]:
        """Return properties for a librdkafka client: strings, and any hook as `oauth_cb`."""
        hook = {} if self.oauth_hook is None else {"oauth_cb": import_function(self.oauth_hook)}
        return {**self.properties, **hook, "bootstrap.servers": self.bootstrap}


class Auth(ConfigSection):
    """Credentials for a server: username and password, or a bearer token."""

    username: str | None = None
    """HTTP basic authentication."""
    password: SecretStr | None = None
    """The password of the username."""
    password_file: File | None = None
    """Instead of the password; read again when it changes."""
    bearer_token: SecretStr | None = None
    """Sent as `Authorization: Bearer …`."""
    bearer_token_file: File | None = None
    """Instead of the token; read again when it changes."""


class Tls(ConfigSection):
    """Whom we trust when a server answers over https, and what we show it. All files are PEM."""

    ca_file: File | None = None
    """The authorities to trust. Default: those of the operating system."""
    cert_file: File | None = None
    """Our certificate and its chain, for servers that require one."""
    key_file: File | None = None
    """Its key; default: cert_file contains the key."""
    key_password: SecretStr | None = None
    """The password of an encrypted key."""
    key_password_file: File | None = None
    """Instead of key_password."""


class OwnAccess(ConfigSection):
    """Credentials of commands on this machine (healthcheck, status, explain) at `listen`, where
    web_config_file requires some.
    """

    auth: Auth | None = Field(default=None, repr=False)
    """The username and password of our own commands, one of basic_auth_users."""
    tls: Tls | None = Field(default=None, repr=False)
    """The certificate of our own commands, if one is required. Without ca_file only the certificate
    that web_config_file names is trusted, whatever its names and its age."""


class Poll(ConfigSection):
    """Intervals of requests to the Connect REST API."""

    state_s: Duration = Field(default=10.0, ge=1.0)
    """Interval of states of connectors and tasks; a worker answers them from memory."""
    offsets_s: Duration = Field(default=600.0, ge=10.0)
    """Interval of the check of source offsets over REST, four connectors of a worker at a time. It
    makes the worker read its offsets topic to the end (all of it, under exactly-once). Positions
    come from the topic; this only verifies them."""
    rest_offsets_s: Duration = Field(default=60.0, ge=5.0)
    """Interval of offsets over REST for connectors whose topic or group cannot be read: one
    connector at a time, at most five a second. It must not be longer than judge.interval_s, since
    three intervals without a change are a stall."""
    groups_s: Duration = Field(default=10.0, ge=1.0)
    """Interval of committed offsets of sink connectors, from the broker."""
    timeout_s: Duration = Field(default=10.0, ge=0.5)
    """Timeout of one REST request to one worker, from the connection to the last byte."""


class Strimzi(ConfigSection):
    """The resource of Strimzi that runs a Connect cluster, in Kubernetes."""

    namespace: Name
    """The namespace of the resource."""
    name: Name
    """The name of the KafkaConnect or the KafkaMirrorMaker2."""
    kubeconfig_file: File | None = None
    """A kubeconfig for the API server. Default: the pod's service account, or kubectl's files."""


class Connect(ConfigSection):
    """A Connect cluster, the Kafka cluster that holds its topics, and its REST addresses."""

    name: Name
    """The name of this Connect cluster in metrics and messages."""
    kafka: Name | None = None
    """A name under kafka: the cluster of its topics. Without it (a managed Connect) only the REST
    API is read, and url is required. A standalone worker stores its offsets in a file and is read
    over REST in both cases; with kafka, the groups of its sinks are read."""
    url: Url | None = None
    """The address of a worker, or of a proxy before the workers. Without it only topics are read,
    as for a dedicated MirrorMaker, and offsets_topic is required."""
    urls: list[Url] | None = Field(default=None, min_length=1)
    """Instead of url: several workers. A worker is used until it fails; then the next one is
    used."""
    auth: Auth | None = Field(default=None, repr=False)
    """Credentials, if the workers require them."""
    tls: Tls | None = Field(default=None, repr=False)
    """TLS settings. Default: the operating system's authorities are trusted, and no certificate is
    shown."""
    offsets_topic: Topic | None = None
    """The offsets topic. Default: discovered, if exactly one compacted topic contains offsets of
    this cluster's connectors."""
    config_topic: Topic | None = None
    """The config topic, for connectors and their configurations without a url."""
    status_topic: Topic | None = None
    """The status topic, for states of connectors and tasks without a url. With a url it has the
    changes that a poll misses. It is discovered if it is named like the offsets topic."""
    worker_properties_file: WorkerFile | None = None
    """The properties file of its workers, which must be the same for all, or a copy of it. Its
    converters and its settings for consumers and producers hold for connectors without their own.
    Without it these are unknown, and no record of such a connector is decoded. Read again at each
    poll; nothing else of it is retained."""
    worker_logs: list[LogFile] = Field(default_factory=list)
    """Log files of its workers on this machine, relative to this file. For sinks with
    errors.log.enable and errors.log.include.messages they name the failing records. Only the end of
    each file is read."""
    strimzi: Strimzi | None = None
    """The Strimzi resource that owns its connectors. The operator reverts changes over REST, so
    these are refused, and changes go through the resource."""
    connectors: Patterns = Patterns()
    """The connectors to monitor."""
    topics: Patterns = Patterns()
    """The upstream topics of MirrorMaker 2 and the topics of sinks to monitor."""
    granularity: Literal["partition", "topic"] = "partition"
    """A series for each partition, or one for each topic."""
    poll: Poll = Poll()
    """Intervals of the requests."""

    @property
    def home(self) -> str:
        """Return the name of the cluster that holds its topics; `kafka` must be set."""
        assert self.kafka is not None
        return self.kafka

    @property
    def worker_urls(self) -> tuple[str, ...]:
        """Return every REST address; empty if only topics are read."""
        return tuple(self.urls) if self.urls else () if self.url is None else (self.url,)


class OffsetSyncs(ConfigSection):
    """Topic to which MirrorMaker 2 writes the offset syncs of a flow."""

    kafka: Name
    """A name under kafka: the cluster of the topic; MirrorMaker's default is the upstream
    cluster."""
    topic: Topic
    """The topic: mm2-offset-syncs.TARGET.internal, unless MirrorMaker is configured otherwise."""


class Flow(ConfigSection):
    """A replication flow, where discovery is not possible or not allowed."""

    source: Alias
    """MirrorMaker's alias of the cluster that is copied from; it may be empty."""
    target: Alias
    """MirrorMaker's alias of the cluster that is copied to; it may be empty."""
    upstream: Name
    """The cluster behind source, a name under kafka."""
    downstream: Name
    """The cluster behind target, a name under kafka."""
    offset_syncs: OffsetSyncs | None = None
    """The offset-syncs topic. Default: the one that the connector's configuration names. Where that
    cannot be read, only the committed source offsets count."""
    connect: Name | None = None
    """The entry under connect that runs the flow. Default: the only entry without url on the
    downstream cluster."""
    connector: Name = "MirrorSourceConnector"
    """The connector's name; the default is that of a dedicated MirrorMaker."""
    copies: dict[CopiedTopic, CopyName] = Field(default_factory=dict)
    """What copies are called on the target, by upstream topic, where a transform or a replication
    policy of your own gives them a name that cannot be followed. "*", in quotes, is every other
    topic; {topic} in a name is the upstream topic. A name that contradicts the connector's
    configuration is not used."""


class LogConfig(ConfigSection):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""
    format: Literal["json", "console"] = "json"
    """json for machines, console for people."""


class LimitsConfig(ConfigSection):
    """Bounds on what one process holds; what they cut is counted in series_dropped_total."""

    source_partitions_max: int = Field(default=100_000, ge=1)
    """Source partitions of a Connect cluster, whose keys may take so many KiB together. MM2's
    checkpoint connector alone writes groups x partitions of them."""
    series_per_connector_max: int = Field(default=100_000, ge=1)
    """Series of one connector in a scrape."""
    series_max: int = Field(default=500_000, ge=1)
    """Series of all connectors in a scrape, a quarter of a KiB of memory each. Beyond it states of
    running tasks are left out first, then single partitions; states of failed tasks, verdicts and
    lag come last. Series of inputs, of findings and of the daemon itself are never left out."""


class JudgeConfig(ConfigSection):
    """Verdicts on progress, and findings."""

    interval_s: Duration = Field(default=60.0, ge=1.0)
    """The base interval: three of these without progress, while work waits, are a stall. Not less
    than the workers' offset.flush.interval.ms, whose default it is: between two flushes no position
    advances."""


class ProbesConfig(ConfigSection):
    """Reads of single upstream records, for the age of the oldest unreplicated one."""

    enabled: bool = True
    """Whether records are read, which needs Read on the upstream topics. Without it the age comes
    from log ends alone."""
    reads_per_round: int = Field(default=500, ge=1)
    """Reads of a Kafka cluster after each reading of its log ends; other partitions follow in later
    rounds."""
    budget_s: Duration = Field(default=2.0, ge=0.1)
    """The longest time of one round. It should be less than ends_s, or rounds are skipped."""


class History(ConfigSection):
    """The Spark pipeline: where its tables are and how often it runs."""

    path: Folder = "history"
    """The folder of the tables, relative to this file; on a Spark cluster, shared by all hosts."""
    cadence_s: Duration = Field(default=60.0, ge=1.0)
    """Interval of batches with --continuous. Every batch costs about a second of CPU, however
    small."""
    refine_s: Duration = Field(default=300.0, ge=1.0)
    """Interval with --continuous at which silver and gold are updated, at ten CPU-seconds each
    time."""
    max_offsets_per_trigger: int = Field(default=500_000, ge=1)
    """Records of a batch, which limits its memory: half a million fit a 1 GB heap."""
    heap: Annotated[str, require_form(r"[0-9]+[mg]", "a number and m or g, as in 512m or 1g")] = (
        "1g"
    )
    """Heap of Spark's JVM."""
    master: str = "local[*]"
    """Spark's master; that of spark-submit wins. Default: this machine with all its cores, for a
    fast backfill; local[2] uses two."""


class Alertmanager(ConfigSection):
    """An Alertmanager (API v2). Of those that form a cluster, each is to be named."""

    url: AlertmanagerUrl
    """Its address, without /api/v2/alerts."""
    auth: Auth | None = Field(default=None, repr=False)
    """Credentials, if it requires them."""
    tls: Tls | None = Field(default=None, repr=False)
    """TLS settings, as for Connect."""


class WebhookConfig(ConfigSection):
    """An address that takes findings as JSON."""

    name: Name
    """The name of the receiver in logs, in place of its address."""
    url: WebhookUrl | None = Field(default=None, repr=False)
    """Its address. It is never logged, since such an address is often the only secret."""
    url_file: File | None = None
    """Instead of url; read again at each call."""
    format: Literal["offsetwatch", "alertmanager"] = "offsetwatch"
    """alertmanager: what an Alertmanager posts to a webhook (version 4), one alert in each request,
    so that whatever takes Alertmanager's webhooks takes these."""
    auth: Auth | None = Field(default=None, repr=False)
    """Credentials, if it requires them."""
    tls: Tls | None = Field(default=None, repr=False)
    """TLS settings, as for Connect."""


class NotifyConfig(ConfigSection):
    """Receivers of findings. Without one, nothing is sent."""

    alertmanagers: list[Alertmanager] = Field(default_factory=list)
    """Alertmanagers, each independent: messages that one does not accept are retained for it."""
    webhooks: list[WebhookConfig] = Field(default_factory=list)
    """Webhooks, each independent as well."""
    severity: Literal["info", "warning", "critical"] = "warning"
    """Findings of a lower severity are shown and not sent."""
    runbooks_url: Url | None = None
    """Where the folder alerts/runbooks is published: every finding then names its runbook there, as
    runbook_url, in the API, on the status page and in notifications. None: it names none."""
    boards_url: Url | None = None
    """Where the Grafana is that has the boards of dashboards/: the status page links to them there.
    None: it does not."""
    external_url: Url | None = None
    """Where people reach the status page: messages link there (external_url of a webhook,
    generatorURL of an alert, externalURL of a webhook in Alertmanager's format). None: to the
    address in listen, unless that is a wildcard."""
    resend_s: Duration = Field(default=60.0, ge=1.0)
    """How often an alert that still fires is sent to an Alertmanager again: it keeps none over its
    own restart."""
    lasts_s: Duration = Field(default=3600.0, ge=60.0)
    """How long an Alertmanager keeps an alert that is not sent again: a shorter downtime of this
    daemon resolves nothing."""
    changes_s: Duration = Field(default=3600.0, ge=1.0)
    """The shortest time between two messages to a webhook that a finding has changed. A severity
    that rises is sent at once."""
    timeout_s: Duration = Field(default=10.0, ge=0.5)
    """Timeout of one delivery to one receiver, from the connection to the answer."""


class Config(ConfigSection):
    """The whole file."""

    kafka: dict[Name, Kafka] = Field(default_factory=dict)
    """Kafka clusters, by the names used in metrics and in this file. Empty if Connect is read over
    REST alone."""
    connect: list[Connect] = Field(min_length=1)
    """Connect clusters and dedicated MirrorMakers."""
    flows: list[Flow] = Field(default_factory=list)
    """Replication flows in addition to the discovered ones."""
    sources: list[Source] = Field(default_factory=list)
    """Databases and files that source connectors read, for the lag behind them."""
    listen: Listen = "127.0.0.1:9640"
    """The address of metrics, the status page and the JSON API."""
    web_config_file: File | None = None
    """A web config file as of Prometheus and its exporters, with TLS, passwords and headers of
    `listen`; read again when it changes. Without it: plain HTTP for every client that can reach it.
    See docs/web-config.md."""
    own_access: OwnAccess | None = None
    """Credentials of our own commands, if web_config_file requires some."""
    control: Control | None = None
    """The listener for alerts, plans and approvals. Without this section there is none."""
    tick_s: Duration = Field(default=1.0, ge=0.05)
    """Interval at which everything is evaluated and published: the longest delay that the daemon
    adds to a commit. While commits come in, positions are published up to four times as often."""
    ends_s: Duration = Field(default=5.0, ge=0.5)
    """Interval of log ends: one batched request to each Kafka cluster."""
    state_dir: Folder = "state"
    """The folder of the state that must survive a restart, relative to this file; only one daemon
    can use it."""
    log: LogConfig = LogConfig()
    """The log on standard error."""
    limits: LimitsConfig = LimitsConfig()
    """Limits of one process."""
    judge: JudgeConfig = JudgeConfig()
    """Verdicts and findings."""
    probes: ProbesConfig = ProbesConfig()
    """How the age of lag is measured."""
    notify: NotifyConfig = NotifyConfig()
    """Notifications of findings."""
    history: History = History()
    """The history pipeline."""
    remedy: RemedyConfig = RemedyConfig()
    """Remediation of findings."""

    def tls_settings(self) -> Iterator[tuple[str, Tls]]:
        """Yield the TLS settings of each server that is asked over HTTP, each with its path."""
        servers: tuple[
            tuple[str, Connect | Alertmanager | WebhookConfig | OwnAccess | None], ...
        ] = (
            *((f"connect[{number}]", connect) for number, connect in enumerate(self.connect)),
            *(
                (f"notify.alertmanagers[{number}]", receiver)
                for number, receiver in enumerate(self.notify.alertmanagers)
            ),
            *(
                (f"notify.webhooks[{number}]", receiver)
                for number, receiver in enumerate(self.notify.webhooks)
            ),
            ("own_access", self.own_access),
        )
        for path, server in servers:
            if server is not None and server.tls is not None:
                yield path, server.tls

    def kafka_of(self, connect: Connect) -> Kafka | None:
        """Return the Kafka cluster that holds its topics; None if none is named."""
        return None if connect.kafka is None else self.kafka.get(connect.kafka)

    def connect_of(self, flow: Flow) -> str:
        """Return the Connect cluster that runs a flow: the named one, or the only possible one."""
        if flow.connect is not None:
            return flow.connect
        (cluster_name,) = (
            cluster.name
            for cluster in self.connect
            if not cluster.worker_urls and cluster.kafka == flow.downstream
        )
        return cluster_name
