"""offsetwatch itself: what it reads, what it costs, what it cannot say, and its history."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import dashboard
from dashboards.panels import Column, Json, Panel, Query, lines, stat, table
from dashboards.queries import Choice, Scope, greatest, least, total, zeros
from exporter.serve import catalog as m
from exporter.serve import catalog_mm2 as mm2
from exporter.serve.spec import INPUT, TAIL

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
        rows={
            "Now": [*_numbers(), *_lists()],
            "Inputs": _inputs(),
            "Series left out, and notifications": _output(),
            "Processes": _processes(),
            "History pipeline": _history(),
        },
    )


def _numbers() -> list[Panel]:
    started = HERE.scraped("process_start_time_seconds")
    reloaded = zeros(HERE.of(m.RELOAD_SUCCESSFUL))
    return [
        stat(
            "Exporters that do not answer",
            "Scrape targets of this job that are down. While one replica answers nothing is "
            "missing; with none, nothing is watched.",
            f"sum(1 - {HERE.scraped('up')})",
            bad={1: "red"},
        ),
        stat(
            "Inputs that are down",
            "What cannot be read; what depends on it is not exported. The table below says which, "
            "the errors say why. `offsetwatch doctor` tries each.",
            zeros(HERE.of(m.INPUT_UP)),
            bad={1: "red"},
        ),
        stat(
            "Topics not read to the end",
            "Tails that have not caught up since the start. For long: a very long topic, or an "
            "open transaction.",
            zeros(HERE.of(m.TAIL_CAUGHT_UP)),
            bad={1: "orange"},
        ),
        stat(
            "Configurations refused",
            "The file on disk is wrong, and the one before is in use: `offsetwatch check` says "
            "where. It would not start with it.",
            reloaded,
            bad={1: "orange"},
        ),
        stat(
            "State not saved for",
            "Time since what must survive a restart was written, the oldest of all. Above the "
            "threshold: see the disk of state_dir before you restart anything.",
            f"time() - {least(HERE.of(m.STATE_SAVED_AT))}",
            unit="s",
            bad={thresholds.STATE_AGE_SECONDS: "orange"},
        ),
        stat(
            "Starts within an hour",
            "Of the one that started most often. Each time it reads its topics again before it "
            "shows anything: see its last log lines.",
            f"max(changes({started}[1h]))",
            bad={thresholds.RESTARTS_PER_HOUR: "orange"},
        ),
        stat(
            "Topics with a problem",
            "Internal topics that will cost offsets, or money, later. The table below names them; "
            "`offsetwatch doctor` says how to fix each.",
            f"count({greatest(HERE.of(m.TOPIC_PROBLEM), 'kafka', 'topic', 'problem')}) or "
            f"0 * count({HERE.of(m.BUILD_INFO)})",
            bad={1: "orange"},
        ),
        stat(
            "Oldest table of the history",
            "Time since the newest batch in the layer that is furthest behind. What compaction "
            "takes before it is read is missing for ever: see the pipeline's log.",
            f"time() - min({greatest(HERE.of(m.HISTORY_TABLE_AT), 'table')})",
            unit="s",
            bad={thresholds.HISTORY_AGE_SECONDS: "orange"},
        ),
        stat(
            "Gaps in the history",
            "Ranges of offsets that no question about the past will ever know. More than "
            "yesterday: run the pipeline more often than the topics are compacted.",
            total(HERE.of(m.HISTORY_GAPS)),
        ),
        stat(
            "Baselines not used",
            "The baselines from the history are damaged or too old: verdicts use fixed rules "
            "alone. `offsetwatch history baselines` learns them again.",
            zeros(HERE.of(m.HISTORY_BASELINES)),
            bad={1: "orange"},
        ),
        stat(
            "Newest batch of the pipeline",
            "Time since it last ended a batch of every Kafka cluster, or found nothing new there.",
            HERE.age(m.HISTORY_BATCH_AT),
            unit="s",
            bad={thresholds.HISTORY_AGE_SECONDS: "orange"},
        ),
        stat(
            "Series exported",
            "Samples of the greatest scrape. Growing without end: see README, bounds on series.",
            greatest(HERE.scraped("scrape_samples_scraped")),
        ),
    ]


def _lists() -> list[Panel]:
    silence = HERE.age(m.INPUT_LAST_SUCCESS, *INPUT)
    problem = greatest(HERE.of(m.TOPIC_PROBLEM), "kafka", "topic", "problem")
    build = greatest(HERE.of(m.BUILD_INFO), "instance", "version", "revision", "python")
    return [
        table(
            "All inputs",
            "1 is up. A row without an age was never read. Begin with one that is 0: what depends "
            "on it is missing from every board.",
            [
                Column("up", least(HERE.of(m.INPUT_UP), *INPUT), "none"),
                Column("last read", silence, "s"),
            ],
            labels=INPUT,
            width=12,
        ),
        table(
            "Internal topics with a problem",
            "not_compacted and shared lose offsets: fix those today. Empty is good.",
            [Column("", problem)],
            labels=("kafka", "topic", "problem"),
            width=6,
        ),
        table(
            "Versions",
            "Which offsetwatch runs where. Two versions for long: a rollout that has stopped.",
            [Column("", build)],
            labels=("instance", "version", "revision", "python"),
            width=6,
        ),
    ]


def _inputs() -> list[Panel]:
    return [
        lines(
            "Time since an input was last read",
            "By the exporter's own clock. A line that rises is an input that fails or hangs: see "
            "its errors.",
            [Query(HERE.age(m.INPUT_LAST_SUCCESS, *INPUT), ONE_INPUT)],
            unit="s",
            bad=thresholds.INPUT_SILENCE_SECONDS,
        ),
        lines(
            "Input errors",
            "Failed attempts, by reason. denied: permissions (docs/acls.md); timeout and "
            "unreachable: the network, or the cluster.",
            [Query(HERE.increase(m.INPUT_ERRORS, *INPUT, "reason"), f"{ONE_INPUT} {{{{reason}}}}")],
        ),
        lines(
            "Records read",
            "Records of internal topics read a second, after the tails caught up. Undecodable "
            "ones: another client writes there; `offsetwatch decode` shows them.",
            [Query(HERE.rate(m.TAIL_RECORDS, *TAIL, "record"), f"{ONE_TAIL} {{{{record}}}}")],
            unit="cps",
        ),
        lines(
            "Behind the internal topics",
            "Records between the exporter's own position and the end of the topic. Growing: it "
            "reads more slowly than is written; see its processor time.",
            [Query(greatest(HERE.of(m.TAIL_BEHIND), *TAIL), ONE_TAIL)],
            bad=thresholds.TAIL_BEHIND_RECORDS,
        ),
        lines(
            "Reads of single records",
            "Made for the age of the oldest record that waits, a second. They cost the "
            "upstream cluster: bound them by `probes`.",
            [Query(HERE.rate(mm2.PROBE_READS, "reason"), "{{reason}}")],
            unit="cps",
        ),
        lines(
            "Such reads that were not made",
            "denied: lag in seconds comes from log ends alone (docs/acls.md); budget: raise "
            "`probes`; timeout: see the upstream brokers.",
            [Query(HERE.rate(mm2.PROBE_SKIPPED, "reason"), "{{reason}}")],
            unit="cps",
        ),
    ]


def _output() -> list[Panel]:
    return [
        lines(
            "Left out",
            "Series or source partitions that a bound cut, by reason. The API and the command line "
            "show all of it; raise the bound if you have room.",
            [Query(HERE.increase(m.SERIES_DROPPED, "reason"), "{{reason}}")],
        ),
        lines(
            "Notifications that failed",
            "Findings that Alertmanager or a webhook did not take; they are sent again. People "
            "hear late: see the receiver.",
            [Query(HERE.increase(m.NOTIFICATIONS_FAILED, "reason"), "{{reason}}")],
        ),
        lines(
            "Newest reload of the configuration",
            "Time since the configuration in use was read. It falls to 0 where a change was taken "
            "up, or the daemon started.",
            [Query(f"time() - {HERE.of(m.RELOAD_AT)}", "{{instance}}")],
            unit="s",
        ),
        lines(
            "Web config files refused",
            "1 while a listener's file on disk is wrong and the one before is in use; and each "
            "such file, once. See `web_config_unusable` in the log.",
            [
                Query(
                    f"1 - {least(HERE.of(m.WEB_RELOAD_SUCCESSFUL), 'listener')}", "{{listener}} now"
                ),
                Query(HERE.increase(m.WEB_RELOAD_FAILURES, "listener"), "{{listener}} files"),
            ],
        ),
        lines(
            "Requests refused",
            "By the read listener. unauthorised: a password that is none; handshake: a certificate "
            "that is not trusted; overload: too many at once.",
            [Query(HERE.increase(m.READ_REFUSED, "reason"), "{{reason}}")],
        ),
        lines(
            "Age of the saved state",
            "It should stay below half a minute. Rising: state_dir cannot be written.",
            [Query(f"time() - {HERE.of(m.STATE_SAVED_AT)}", "{{instance}}")],
            unit="s",
            bad=thresholds.STATE_AGE_SECONDS,
        ),
    ]


def _processes() -> list[Panel]:
    instance = "{{instance}}"

    def shown(name: str) -> list[Query]:
        return [Query(HERE.scraped(name), instance)]

    cpu = f"rate({HERE.scraped('process_cpu_seconds_total')}[$__rate_interval])"
    return [
        lines(
            "Processor time",
            "Cores used by each exporter. At 1 it cannot follow any more: give it fewer series or "
            "fewer clusters.",
            [Query(cpu, instance)],
        ),
        lines(
            "Memory",
            "Resident memory of each exporter. Rising while the number of series does not: restart "
            "it, and keep its log.",
            shown("process_resident_memory_bytes"),
            unit="bytes",
        ),
        lines(
            "Time that a scrape takes",
            "As Prometheus sees it. Near the scrape time-out samples are lost: scrape with "
            "compression, or bound the series.",
            shown("scrape_duration_seconds"),
            unit="s",
        ),
        lines(
            "Open files",
            "File descriptors of each exporter, beside what the system allows. Near that: "
            "connections leak, or the limit is small.",
            [
                Query(HERE.scraped("process_open_fds"), f"{instance} open"),
                Query(HERE.scraped("process_max_fds"), f"{instance} allowed"),
            ],
        ),
    ]


def _history() -> list[Panel]:
    return [
        lines(
            "Age of the history",
            "Time since the newest batch that is in the tables, by layer. bronze: nothing is read; "
            "silver or gold: computing fails. See the run's last error.",
            [Query(HERE.age(m.HISTORY_TABLE_AT, "table"), "{{table}}")],
            unit="s",
            bad=thresholds.HISTORY_AGE_SECONDS,
        ),
        lines(
            "History behind the log ends",
            "Offsets that the newest batch has not read. Growing: run the pipeline more often, "
            "before compaction takes them.",
            [Query(greatest(HERE.of(m.HISTORY_BEHIND), "kafka"), "{{kafka}}")],
        ),
        lines(
            "Records stored",
            "Records that came into bronze, a second. Undecodable ones are kept as bytes.",
            [Query(HERE.rate(m.HISTORY_RECORDS, "kafka", "record"), "{{kafka}} {{record}}")],
            unit="cps",
        ),
        lines(
            "Runs that failed",
            "By reason. stream_ended goes on by itself; all others end a run: see its report.",
            [Query(HERE.increase(m.HISTORY_ERRORS, "reason"), "{{reason}}")],
        ),
        lines(
            "Gaps",
            "Ranges of offsets that are missing for ever, by Kafka cluster. A step: records were "
            "deleted before they were read; see ops/gaps.",
            [Query(greatest(HERE.of(m.HISTORY_GAPS), "kafka"), "{{kafka}}")],
        ),
        lines(
            "Connectors with baselines",
            "For how many it is known what is usual at this hour. A fall: history lacks four weeks "
            "of them, or its document is not used.",
            [
                Query(f"count({greatest(HERE.of(spec), 'connect_cluster', 'connector')})", name)
                for name, spec in (
                    ("commits", m.EXPECTED_COMMITS),
                    ("advances", m.EXPECTED_INTERVAL),
                    ("lag", m.EXPECTED_LAG),
                )
            ],
        ),
    ]
