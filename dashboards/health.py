"""offsetwatch itself: what it reads, what it costs, what it cannot say, and its history."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import Row, dashboard
from dashboards.panels import Bad, Column, Json, Panel, Query, lines, stat, table
from dashboards.queries import Choice, Scope, greatest, least, total, zeros
from offsetwatch.serve.metrics import catalog as m
from offsetwatch.serve.metrics import mirror_families as mm2
from offsetwatch.serve.metrics.metric import INPUT, TAIL

HERE: Final = Scope((Choice("instance", "Instance", m.BUILD_INFO),))
# Each kind of input has some of these labels.
ONE_INPUT: Final = (
    "{{kind}} {{kafka}}{{connect_cluster}} {{topic}}{{connector}}{{source}} {{target}}"
)
ONE_TAIL: Final = "{{kafka}} {{topic}}"


def board() -> Json:
    """The whole file."""
    return dashboard(
        "health",
        "The exporter, its inputs and tails, its notifications, and the history pipeline.",
        scope=HERE,
        now=[*_numbers(), *_lists()],
        rows=[
            Row("Inputs and internal topics", [*_topic_numbers(), *_inputs()]),
            Row("Output, notifications and configuration", _output()),
            Row("Processes", [*_series(), *_versions(), *_processes()]),
            Row("History pipeline", [*_history_numbers(), *_history()]),
        ],
    )


def _numbers() -> list[Panel]:
    started = HERE.scraped("process_start_time_seconds")
    reloaded = zeros(HERE.of(m.RELOAD_SUCCESSFUL))
    return [
        stat(
            "Exporters down",
            "Scrape targets of this job that are down. While one replica answers nothing is "
            "missing; with none, nothing is watched.",
            f"sum(1 - {HERE.scraped('up')})",
            bad=Bad({1: "red"}, runbooks=("OffsetwatchBlind",)),
            unit="short",
        ),
        stat(
            "Inputs down",
            "What cannot be read; what depends on it is not exported. The table below has "
            "which, the errors have why. `offsetwatch doctor` tries each.",
            zeros(HERE.of(m.INPUT_UP)),
            bad=Bad({1: "red"}, runbooks=("OffsetwatchBlind",)),
            unit="short",
        ),
        stat(
            "Internal topics not caught up",
            "Tails that have not caught up since the start. For long: a very long topic, or an "
            "open transaction.",
            zeros(HERE.of(m.TAIL_CAUGHT_UP)),
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchBlind",)),
            unit="short",
        ),
        stat(
            "Configurations rejected",
            "The file on disk is wrong, and the previous one is in use: `offsetwatch check` says "
            "where. It would not start with it.",
            reloaded,
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchConfigRejected",)),
            unit="short",
        ),
        stat(
            "Age of the saved state",
            "Time since the daemon saved its state, of the oldest instance. Above the "
            "threshold: see the disk of state_dir before you restart anything.",
            f"time() - {least(HERE.of(m.STATE_SAVED_AT))}",
            unit="s",
            bad=Bad(
                {thresholds.STATE_AGE_SECONDS: "orange"}, runbooks=("OffsetwatchStateNotSaved",)
            ),
        ),
        stat(
            "Restarts within an hour",
            "Of the one that started most often. Each time it reads its topics again before it "
            "shows anything: see its last log lines.",
            f"max(changes({started}[1h]))",
            bad=Bad({thresholds.RESTARTS_PER_HOUR: "orange"}, runbooks=("OffsetwatchRestarting",)),
            unit="short",
        ),
    ]


def _topic_numbers() -> list[Panel]:
    return [
        stat(
            "Internal topics with a problem",
            "Internal topics whose configuration will lose offsets or slow workers down. The table "
            "above names them; `offsetwatch doctor` has the fix of each.",
            f"count({greatest(HERE.of(m.TOPIC_PROBLEM), 'kafka', 'topic', 'problem')}) or "
            f"0 * count({HERE.of(m.BUILD_INFO)})",
            bad=Bad(
                {1: "orange"}, runbooks=("InternalTopicEndangered", "InternalTopicMisconfigured")
            ),
            unit="short",
        ),
    ]


def _history_numbers() -> list[Panel]:
    return [
        stat(
            "Age of the oldest history table",
            "Time since the newest batch in the layer that is furthest behind. What compaction "
            "takes before it is read stays missing: see the pipeline's log.",
            f"time() - min({greatest(HERE.of(m.HISTORY_TABLE_AT), 'table')})",
            unit="s",
            bad=Bad(
                {thresholds.HISTORY_AGE_SECONDS: "orange"}, runbooks=("HistoryPipelineStopped",)
            ),
        ),
        stat(
            "History gaps",
            "Ranges of offsets that stay missing from the history. More than yesterday: "
            "run the pipeline more often than the topics are compacted.",
            total(HERE.of(m.HISTORY_GAPS)),
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("HistoryGapGrew",)),
        ),
        stat(
            "Baselines not in use",
            "The learned baselines are damaged or too old: verdicts follow fixed rules "
            "alone. `offsetwatch history baselines` makes them again.",
            zeros(HERE.of(m.HISTORY_BASELINES)),
            bad=Bad({1: "orange"}, runbooks=("HistoryBaselinesUnusable",)),
            unit="short",
        ),
        stat(
            "Age of the last pipeline batch",
            "Time since it last ended a batch of every Kafka cluster, or found nothing new there.",
            HERE.age(m.HISTORY_BATCH_AT),
            unit="s",
            bad=Bad(
                {thresholds.HISTORY_AGE_SECONDS: "orange"}, runbooks=("HistoryPipelineStopped",)
            ),
        ),
    ]


def _series() -> list[Panel]:
    return [
        stat(
            "Series exported",
            "Samples of the greatest scrape. Growing without end: bound them by "
            "`limits.series_max`.",
            greatest(HERE.scraped("scrape_samples_scraped")),
            unit="short",
        ),
    ]


def _lists() -> list[Panel]:
    silence = HERE.age(m.INPUT_LAST_SUCCESS, *INPUT)
    problem = greatest(HERE.of(m.TOPIC_PROBLEM), "kafka", "topic", "problem")
    return [
        table(
            "All inputs",
            "1 is up. A row without an age was never read. Begin with one that is 0: what depends "
            "on it is missing from every board.",
            [
                Column("up", least(HERE.of(m.INPUT_UP), *INPUT), "none", Bad(below={1: "red"})),
                Column(
                    "last read", silence, "s", Bad({thresholds.INPUT_SILENCE_SECONDS: "orange"})
                ),
            ],
            labels=INPUT,
            size=(12, 8),
            bad=Bad(runbooks=("OffsetwatchBlind",)),
        ),
        table(
            "Internal topic problems",
            "not_compacted and shared lose offsets: fix those today. Empty is good.",
            [Column("", problem, unit="short")],
            labels=("kafka", "topic", "problem"),
            size=(12, 8),
            bad=Bad(runbooks=("InternalTopicEndangered", "InternalTopicMisconfigured")),
        ),
    ]


def _versions() -> list[Panel]:
    build = greatest(HERE.of(m.BUILD_INFO), "instance", "version", "revision", "python")
    return [
        table(
            "Versions",
            "Which offsetwatch runs where. Two versions for long: a rollout that has stopped.",
            [Column("", build, unit="short")],
            labels=("instance", "version", "revision", "python"),
            size=(12, 8),
        ),
    ]


def _inputs() -> list[Panel]:
    return [
        lines(
            "Age of the last successful read by input",
            "By the exporter's own clock. A line that rises is an input that fails or hangs: see "
            "its errors.",
            [Query(HERE.age(m.INPUT_LAST_SUCCESS, *INPUT), ONE_INPUT)],
            unit="s",
            bad=Bad({thresholds.INPUT_SILENCE_SECONDS: "orange"}, runbooks=("OffsetwatchBlind",)),
        ),
        lines(
            "Input errors",
            "Failed attempts, by reason. denied: permissions (docs/acls.md); timeout and "
            "unreachable: the network, or the cluster.",
            [Query(HERE.increase(m.INPUT_ERRORS, *INPUT, "reason"), f"{ONE_INPUT} {{{{reason}}}}")],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchBlind",)),
        ),
        lines(
            "Records read from internal topics",
            "Records of internal topics read per second, after the tails caught up. "
            "Undecodable ones: another program writes there; `offsetwatch decode` shows "
            "them.",
            [Query(HERE.rate(m.TAIL_RECORDS, *TAIL, "record"), f"{ONE_TAIL} {{{{record}}}}")],
            unit="cps",
            bad=Bad(runbooks=("OffsetwatchRecordsUndecodable",)),
        ),
        lines(
            "Lag behind the internal topics",
            "Records between the exporter's own position and the end of the topic. Growing: "
            "it reads more slowly than the topic is written; check its CPU.",
            [Query(greatest(HERE.of(m.TAIL_BEHIND), *TAIL), ONE_TAIL)],
            bad=Bad({thresholds.TAIL_BEHIND_RECORDS: "orange"}, runbooks=("OffsetwatchBlind",)),
            unit="short",
        ),
        lines(
            "Probe reads",
            "Reads of single records per second, made to learn the age of the oldest record "
            "that waits. They cost the upstream cluster: bound them by `probes`.",
            [Query(HERE.rate(mm2.PROBE_READS, "reason"), "{{reason}}")],
            unit="cps",
        ),
        lines(
            "Probe reads skipped",
            "denied: lag in time is computed from log ends alone (docs/acls.md); budget: "
            "raise `probes`; timeout: check the upstream brokers.",
            [Query(HERE.rate(mm2.PROBE_SKIPPED, "reason"), "{{reason}}")],
            unit="cps",
        ),
    ]


def _output() -> list[Panel]:
    return [
        lines(
            "Series dropped",
            "Series or source partitions that a bound cut, by reason. The API and the command line "
            "show all of it; raise the bound if you have room.",
            [Query(HERE.increase(m.SERIES_DROPPED, "reason"), "{{reason}}")],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchSeriesDropped",)),
        ),
        lines(
            "Notifications failed",
            "Findings that Alertmanager or a webhook did not accept; they are sent again. "
            "Operators get them late: check the receiver.",
            [Query(HERE.increase(m.NOTIFICATIONS_FAILED, "reason"), "{{reason}}")],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchNotificationsFailing",)),
        ),
        lines(
            "Age of the last configuration reload",
            "Time since the configuration in use was read. It falls to 0 where a change was taken "
            "up, or the daemon started.",
            [Query(f"time() - {HERE.of(m.RELOAD_AT)}", "{{instance}}")],
            unit="s",
        ),
        lines(
            "Web config files rejected",
            "1 while a listener's file on disk is wrong and the previous one is in use; and each "
            "such file, once. See `web_config_unusable` in the log.",
            [
                Query(
                    f"1 - {least(HERE.of(m.WEB_RELOAD_SUCCESSFUL), 'listener')}", "{{listener}} now"
                ),
                Query(HERE.increase(m.WEB_RELOAD_FAILURES, "listener"), "{{listener}} files"),
            ],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchConfigRejected",)),
        ),
        lines(
            "Requests refused by the read listener",
            "unauthorised: a wrong password; handshake: a certificate that is not trusted; "
            "overload: too many connections at once.",
            [Query(HERE.increase(m.READ_REFUSED, "reason"), "{{reason}}")],
            unit="short",
        ),
        lines(
            "Age of the saved state by instance",
            "It should stay below half a minute. Rising: state_dir cannot be written.",
            [Query(f"time() - {HERE.of(m.STATE_SAVED_AT)}", "{{instance}}")],
            unit="s",
            bad=Bad(
                {thresholds.STATE_AGE_SECONDS: "orange"}, runbooks=("OffsetwatchStateNotSaved",)
            ),
        ),
    ]


def _processes() -> list[Panel]:
    instance = "{{instance}}"

    def build_queries(name: str) -> list[Query]:
        return [Query(HERE.scraped(name), instance)]

    cpu = f"rate({HERE.scraped('process_cpu_seconds_total')}[$__rate_interval])"
    return [
        lines(
            "CPU",
            "Cores used by each exporter. At 1 it falls behind: give it fewer series or "
            "fewer clusters.",
            [Query(cpu, instance)],
            unit="short",
            bad=Bad({0.9: "orange"}, runbooks=("OffsetwatchBlind",)),
        ),
        lines(
            "Memory",
            "Resident memory of each exporter. Rising while the number of series does not: restart "
            "it, and keep its log.",
            build_queries("process_resident_memory_bytes"),
            unit="bytes",
        ),
        lines(
            "Scrape duration",
            "As Prometheus sees it. Near the scrape time-out samples are lost: scrape with "
            "compression, or bound the series.",
            build_queries("scrape_duration_seconds"),
            unit="s",
            bad=Bad({10: "orange"}, runbooks=("OffsetwatchBlind",)),
        ),
        lines(
            "Open file descriptors",
            "File descriptors of each exporter, beside what the system allows. Near that: "
            "connections leak, or the limit is small.",
            [
                Query(HERE.scraped("process_open_fds"), f"{instance} open"),
                Query(HERE.scraped("process_max_fds"), f"{instance} allowed"),
            ],
            unit="short",
        ),
    ]


def _history() -> list[Panel]:
    return [
        lines(
            "Age of the history tables",
            "Time since the newest batch that is in the tables, by layer. bronze: nothing is read; "
            "silver or gold: computing fails. See the run's last error.",
            [Query(HERE.age(m.HISTORY_TABLE_AT, "table"), "{{table}}")],
            unit="s",
            bad=Bad(
                {thresholds.HISTORY_AGE_SECONDS: "orange"}, runbooks=("HistoryPipelineStopped",)
            ),
        ),
        lines(
            "History lag",
            "Offsets that the newest batch has not read. Growing: run the pipeline more often, "
            "before compaction takes them.",
            [Query(greatest(HERE.of(m.HISTORY_BEHIND), "kafka"), "{{kafka}}")],
            unit="short",
            bad=Bad(runbooks=("HistoryPipelineStopped",)),
        ),
        lines(
            "Records stored in bronze",
            "Records that came into bronze, a second. Undecodable ones are kept as bytes.",
            [Query(HERE.rate(m.HISTORY_RECORDS, "kafka", "record"), "{{kafka}} {{record}}")],
            unit="cps",
        ),
        lines(
            "Pipeline runs failed",
            "By reason. After stream_ended the run continues; all others end it: see its report.",
            [Query(HERE.increase(m.HISTORY_ERRORS, "reason"), "{{reason}}")],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("HistoryPipelineStopped",)),
        ),
        lines(
            "History gaps by Kafka cluster",
            "Ranges of offsets that stay missing, by Kafka cluster. A step: records were "
            "deleted before they were read; see ops/gaps.",
            [Query(greatest(HERE.of(m.HISTORY_GAPS), "kafka"), "{{kafka}}")],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("HistoryGapGrew",)),
        ),
        lines(
            "Connectors with baselines",
            "For how many connectors there is a baseline at this hour. A fall: history "
            "lacks four weeks of them, or its document is not used.",
            [
                Query(f"count({greatest(HERE.of(spec), 'connect_cluster', 'connector')})", name)
                for name, spec in (
                    ("commits", m.EXPECTED_COMMITS),
                    ("advances", m.EXPECTED_INTERVAL),
                    ("lag", m.EXPECTED_LAG),
                )
            ],
            unit="short",
            bad=Bad(runbooks=("HistoryBaselinesUnusable",)),
        ),
    ]
