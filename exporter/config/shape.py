"""What the YAML file may hold. Strict: an unknown key is a mistake.

Keys that end in `_s` are durations: text such as 5m, or a number of seconds, which they are inside.
Defaults that follow Connect's own rhythm assume its
default `offset.flush.interval.ms` of 60 s or less. A path is relative to the configuration
file's folder; no message about one repeats what stands there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, StringConstraints

from exporter.addresses import canonical
from exporter.config.control import Control
from exporter.config.remedy import Remedy
from exporter.config.section import Patterns, Section
from exporter.config.types import (
    Address,
    Alias,
    Duration,
    File,
    Folder,
    Hook,
    Listen,
    LogFile,
    Name,
    Topic,
    Url,
    WebhookUrl,
    WorkerFile,
    function_of,
)


class Kafka(Section):
    """A Kafka cluster: where it answers, and any librdkafka property for the clients."""

    bootstrap: Address
    """host:port, several with commas between them; an IPv6 host in brackets."""
    properties: dict[str, str] = Field(default_factory=dict, repr=False)
    """librdkafka's own names and values, all of them strings. NAME_file has the value of NAME read
    from a file; a path (ssl.ca.location and its like) is relative to this file."""
    oauth_hook: Hook | None = None
    """A function that fetches tokens for OAUTHBEARER, as confluent-kafka's `oauth_cb`: called with
    the value of sasl.oauthbearer.config, it returns (token, expiry in Unix seconds)."""

    @property
    def addresses(self) -> frozenset[str]:
        """The bootstrap servers, one by one, as addresses are compared."""
        return frozenset(canonical(address) for address in self.bootstrap.split(","))

    def client_properties(self) -> dict[str, Any]:
        """Settings for a librdkafka client: strings, and under `oauth_cb` the hook if any."""
        hook = {} if self.oauth_hook is None else {"oauth_cb": function_of(self.oauth_hook)}
        return {**self.properties, **hook, "bootstrap.servers": self.bootstrap}


class Auth(Section):
    """How servers know us: username and password, or a bearer token."""

    username: str | None = None
    """HTTP basic authentication."""
    password: SecretStr | None = None
    """With the username."""
    password_file: File | None = None
    """Instead of the password; read again when it changes."""
    bearer_token: SecretStr | None = None
    """Sent as `Authorization: Bearer …`."""
    bearer_token_file: File | None = None
    """Instead of the token; read again when it changes."""


class Tls(Section):
    """Whom we trust when a server answers over https, and what we show it. All files are PEM."""

    ca_file: File | None = None
    """The authorities to trust; without it those of the operating system."""
    cert_file: File | None = None
    """Our certificate and its chain, for servers that ask for one."""
    key_file: File | None = None
    """Its key; without it the key stands in cert_file."""
    key_password: SecretStr | None = None
    """Opens the key, where it is encrypted."""
    key_password_file: File | None = None
    """Instead of key_password."""


class OwnAccess(Section):
    """How commands on this machine (healthcheck, status, explain) are known at `listen`, where
    web_config_file asks for something.
    """

    auth: Auth | None = Field(default=None, repr=False)
    """A username and its password, of those under basic_auth_users."""
    tls: Tls | None = Field(default=None, repr=False)
    """A certificate to show, where one is asked for. Without ca_file only the very certificate that
    web_config_file names is trusted, whatever names stand in it and however old it is."""


class Poll(Section):
    """How often the Connect REST API is asked."""

    state_s: Duration = Field(default=10.0, ge=1.0)
    """Connectors and tasks: answered from a worker's memory, cheap."""
    offsets_s: Duration = Field(default=600.0, ge=10.0)
    """Source offsets, on each worker of four connectors at a time: makes it read its offsets topic
    to the end (all of it, under exactly-once). The tail is the source; this is a truth check."""
    rest_offsets_s: Duration = Field(default=60.0, ge=5.0)
    """Offsets of each connector whose topic or group cannot be read, so that REST is all there is:
    one connector at a time, five in a second at most. As often as judge.interval_s at least, as
    three intervals without a change are a stall."""
    groups_s: Duration = Field(default=10.0, ge=1.0)
    """Committed offsets of sink connectors, from the broker."""
    timeout_s: Duration = Field(default=10.0, ge=0.5)
    """One REST request to one worker, from the connection to the last byte."""


class Strimzi(Section):
    """The resource of Strimzi that runs a Connect cluster, in Kubernetes."""

    namespace: Name
    """Where it is."""
    name: Name
    """Of the KafkaConnect or the KafkaMirrorMaker2."""
    kubeconfig_file: File | None = None
    """How to reach the API server. Without it: the pod's service account, or kubectl's files."""


class Connect(Section):
    """A Connect cluster, the Kafka cluster that holds its topics, and its REST addresses."""

    name: Name
    """As it stands in metrics and messages."""
    kafka: Name | None = None
    """A name under kafka: the cluster that holds its topics. Without one (a managed Connect) the
    REST API is all there is, and url must be named. A standalone worker keeps its offsets in a file
    and is asked over REST with or without it; with it, the groups of its sinks are read."""
    url: Url | None = None
    """Where a worker, or a proxy before them, answers. Without one only topics are read, as for a
    dedicated MirrorMaker, and offsets_topic must be named."""
    urls: list[Url] | None = Field(default=None, min_length=1)
    """Instead of url: several workers. The one that works is kept; where it fails the next is
    asked."""
    auth: Auth | None = Field(default=None, repr=False)
    """None: workers ask for nothing."""
    tls: Tls | None = Field(default=None, repr=False)
    """None: the operating system's authorities are trusted and no certificate is shown."""
    offsets_topic: Topic | None = None
    """Found by itself where exactly one compacted topic decodes to this cluster's connectors."""
    config_topic: Topic | None = None
    """Read where there is no url: connectors and their configurations."""
    status_topic: Topic | None = None
    """States of connectors and tasks where there is no url. With one, it has the changes that a
    poll misses. It is discovered if it is named like the offsets topic."""
    worker_properties_file: WorkerFile | None = None
    """What its workers are started with, all alike, or a copy of it: their converters, and what
    they give to consumers and producers, hold for connectors that say nothing of their own. Without
    it these are unknown, and no record is decoded for such a connector. Read again at each poll;
    nothing else of it is retained."""
    worker_logs: list[LogFile] = Field(default_factory=list)
    """Logs of its workers that are files on this machine, relative to this file:
    they name the records that fail, of sinks with errors.log.enable and
    errors.log.include.messages. Only the end of each is read."""
    strimzi: Strimzi | None = None
    """Strimzi owns its connectors: the operator puts back what is done to them over REST, so that
    is refused, and changes go through its resources."""
    connectors: Patterns = Patterns()
    """Which connectors to look at."""
    topics: Patterns = Patterns()
    """Which upstream topics of MirrorMaker 2 and which topics of sinks to look at."""
    granularity: Literal["partition", "topic"] = "partition"
    """Series for each partition, or one for each topic."""
    poll: Poll = Poll()
    """Intervals of the requests."""

    @property
    def home(self) -> str:
        """The name of the cluster that holds its topics, where one is named."""
        assert self.kafka is not None
        return self.kafka

    @property
    def worker_urls(self) -> tuple[str, ...]:
        """Every REST address; empty where only topics are read."""
        return tuple(self.urls) if self.urls else () if self.url is None else (self.url,)


class OffsetSyncs(Section):
    """Where MirrorMaker 2 writes the offset syncs of a flow."""

    kafka: Name
    """A name under kafka; MirrorMaker's own default is the upstream cluster."""
    topic: Topic
    """mm2-offset-syncs.TARGET.internal, unless a dialect or a setting of MirrorMaker says other."""


class Flow(Section):
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
    """Without them the positions of the source offsets are all there is."""
    connect: Name | None = None
    """The entry under connect that runs the flow; may be left out where exactly one entry without
    url lies on the downstream cluster."""
    connector: Name = "MirrorSourceConnector"
    """The connector's name; a dedicated MirrorMaker gives this one."""


class Log(Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """What is less than this is left out."""
    format: Literal["json", "console"] = "json"
    """For machines or for people."""


class Limits(Section):
    """Bounds on what one process holds; what they cut is counted in series_dropped_total."""

    source_partitions_max: int = Field(default=100_000, ge=1)
    """Per Connect cluster. MM2's checkpoint connector alone writes groups x partitions of them."""
    series_per_connector_max: int = Field(default=100_000, ge=1)
    """One connector must not fill the scrape of all."""


class Judge(Section):
    """Verdicts on progress, and findings."""

    interval_s: Duration = Field(default=60.0, ge=1.0)
    """The base interval: three of these without progress, while work waits, are a stall. Not less
    than the workers' offset.flush.interval.ms, whose default it is: between two flushes no position
    advances."""


class Probes(Section):
    """Reads of single upstream records, for the age of the oldest unreplicated one."""

    enabled: bool = True
    """They need Read on the upstream topics. Without them the age comes from log ends alone."""
    reads_per_round: int = Field(default=500, ge=1)
    """Per Kafka cluster, after each reading of its log ends; the others wait for their turn."""
    budget_s: Duration = Field(default=2.0, ge=0.1)
    """What one round may take. Less than ends_s, or rounds are left out."""


class History(Section):
    """The Spark pipeline: where its tables are and how often it runs."""

    path: Folder = "history"
    """A folder, relative to this file; on a cluster, of all its hosts."""
    cadence_s: Duration = Field(default=60.0, ge=1.0)
    """With --continuous. Every batch costs about a second of CPU, however small."""
    refine_s: Duration = Field(default=300.0, ge=1.0)
    """With --continuous: how often silver and gold follow, at ten CPU-seconds however little."""
    max_offsets_per_trigger: int = Field(default=500_000, ge=1)
    """Bounds a batch's memory: half a million records fit a 1 GB heap."""
    heap: Annotated[str, StringConstraints(pattern=r"^\d+[mg]$")] = "1g"
    """Of Spark's JVM."""
    master: str = "local[*]"
    """Spark's master; spark-submit's own wins. This machine with all its cores, so that a backfill
    does not take longer than it must; local[2] leaves others to others."""


class Alertmanager(Section):
    """An Alertmanager (API v2). Of those that form a cluster, each is to be named."""

    url: Url
    """Without /api/v2/alerts."""
    auth: Auth | None = Field(default=None, repr=False)
    """None: it asks for nothing."""
    tls: Tls | None = Field(default=None, repr=False)
    """None: as for Connect."""


class Webhook(Section):
    """An address that takes findings as JSON."""

    name: Name
    """As it stands in logs, where the address does not."""
    url: WebhookUrl | None = Field(default=None, repr=False)
    """Kept out of logs: such an address is often all that is asked of a sender."""
    url_file: File | None = None
    """Instead of url; read again at each call."""
    format: Literal["offsetwatch", "alertmanager"] = "offsetwatch"
    """alertmanager: what an Alertmanager posts to a webhook (version 4), one alert in each request,
    so that whatever takes Alertmanager's webhooks takes these."""
    auth: Auth | None = Field(default=None, repr=False)
    """None: it asks for nothing."""
    tls: Tls | None = Field(default=None, repr=False)
    """None: as for Connect."""


class Notify(Section):
    """Receivers of findings. Without one, nothing is sent."""

    alertmanagers: list[Alertmanager] = Field(default_factory=list)
    """Each on its own: what one does not take is kept for it."""
    webhooks: list[Webhook] = Field(default_factory=list)
    """Each on its own as well."""
    severity: Literal["info", "warning", "critical"] = "warning"
    """Findings of a lower severity are shown and not sent."""
    runbooks_url: Url | None = None
    """Where the folder alerts/runbooks is published: every finding then names its runbook there, as
    runbook_url, in the API, on the status page and in notifications. None: it names none."""
    external_url: Url | None = None
    """Where people reach the status page: alerts link there (generatorURL, and externalURL of a
    webhook in Alertmanager's format). None: they do not."""
    resend_s: Duration = Field(default=60.0, ge=1.0)
    """How often an alert that still fires is sent to an Alertmanager again: it keeps none over its
    own restart."""
    lasts_s: Duration = Field(default=3600.0, ge=60.0)
    """How long an alert stands in an Alertmanager that hears no more of it: while this daemon is
    away for less, nothing is taken for resolved."""
    changes_s: Duration = Field(default=3600.0, ge=1.0)
    """The shortest time between two messages to a webhook that a finding has changed. A severity
    that rises is sent at once."""
    timeout_s: Duration = Field(default=10.0, ge=0.5)
    """One delivery to one receiver, from the connection to the answer."""


class Config(Section):
    """The whole file."""

    kafka: dict[Name, Kafka] = Field(default_factory=dict)
    """Kafka clusters by the name that metrics and this file know them by. None, where Connect is
    asked over REST alone."""
    connect: list[Connect] = Field(min_length=1)
    """Connect clusters, dedicated MirrorMakers among them."""
    flows: list[Flow] = Field(default_factory=list)
    """Beside those that discovery finds."""
    listen: Listen = "127.0.0.1:9640"
    """Where metrics, the status page and the JSON API are served."""
    web_config_file: File | None = None
    """TLS, passwords and headers of `listen`, in the shape that Prometheus and its exporters share;
    read again when it changes. Without it: plain HTTP for every client that can
    reach it. See docs/web-config.md."""
    own_access: OwnAccess | None = None
    """None: nothing is shown, which is enough where web_config_file asks for nothing."""
    control: Control | None = None
    """The listener for alerts, plans and approvals. Without this section there is none."""
    tick_s: Duration = Field(default=1.0, ge=0.05)
    """How often everything is judged and published: the most that the edge adds to a commit's age.
    While commits come in, positions are shown up to four times as often."""
    ends_s: Duration = Field(default=5.0, ge=0.5)
    """How often log ends are asked for: one batched request per Kafka cluster."""
    state_dir: Folder = "state"
    """What must survive a restart; a folder of this daemon alone, relative to this file."""
    log: Log = Log()
    """Standard error."""
    limits: Limits = Limits()
    """What one process may hold."""
    judge: Judge = Judge()
    """How soon a stall is one."""
    probes: Probes = Probes()
    """How the age of lag is measured."""
    notify: Notify = Notify()
    """Findings to people."""
    history: History = History()
    """The pipeline."""
    remedy: Remedy = Remedy()
    """What may be done about findings."""

    def kafka_of(self, connect: Connect) -> Kafka | None:
        """Return the cluster that holds its topics, if one is named."""
        return None if connect.kafka is None else self.kafka.get(connect.kafka)

    def connect_of(self, flow: Flow) -> str:
        """The Connect cluster that runs a flow, named or the only one that can."""
        if flow.connect is not None:
            return flow.connect
        (found,) = (
            at.name for at in self.connect if not at.worker_urls and at.kafka == flow.downstream
        )
        return found
