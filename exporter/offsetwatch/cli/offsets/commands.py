"""Declarations of the `offsets` verbs; heavy imports wait until a verb needs them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from offsetwatch.cli.common.options import (
    WholeNumber,
    change_options,
    daemon_options,
    optional_config_option,
    output_options,
    take_read_options,
    take_watch_options,
    watch_options,
)
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets.arguments import (
    ChangeOptions,
    DocumentOptions,
    FlowResetOptions,
    OffsetStoreOptions,
)

F = TypeVar("F", bound=Callable[..., Any])


def _build_path_type(**more: Any) -> click.Path:
    return click.Path(dir_okay=False, path_type=Path, **more)


def _apply_in_order(function: F, options: tuple[Callable[[F], F], ...]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def store_options(function: F) -> F:
    """Add the options that name an offset store: Connect over REST, or a worker's storage."""
    return _apply_in_order(
        function,
        (
            click.option("--connect", help="A Connect cluster of --config, over REST."),
            optional_config_option("The YAML file."),
            click.option(
                "--worker-config",
                type=_build_path_type(),
                help="A worker's or MirrorMaker's properties file: change its storage directly.",
            ),
            click.option(
                "--kafka", help="With --worker-config and --strimzi: the Kafka cluster of --config."
            ),
            click.option(
                "--strimzi",
                metavar="NAMESPACE/NAME",
                help="A KafkaConnect or KafkaMirrorMaker2, changed through Strimzi's operator.",
            ),
            click.option(
                "--kubeconfig", type=_build_path_type(), help="With --strimzi: the kubeconfig."
            ),
            click.option(
                "--even-if-gitops",
                is_flag=True,
                help="With --strimzi: also resources that Argo CD or Flux owns.",
            ),
            click.option("--flow", metavar="A->B", help="The flow, if a MirrorMaker has several."),
        ),
    )


def flow_options(function: F) -> F:
    """Add the options for the target of a flow reset."""
    return _apply_in_order(
        function,
        (
            click.option(
                "--to-offset",
                type=WholeNumber(min=0),
                help="With --flow: the next record to be copied, in each partition.",
            ),
            click.option(
                "--to-time",
                help="With --flow: continue with the first record of this moment: ISO 8601 with a "
                "zone, Unix seconds, or '10m ago'.",
            ),
            click.option(
                "--by",
                metavar="DURATION",
                help="With --flow: go back by this span of record time: 90s, 30m, 2h, 1d; "
                "+30m is forward.",
            ),
            click.option(
                "--topics", help="With --flow: only these topics, by their upstream names."
            ),
            click.option(
                "--clear-syncs",
                is_flag=True,
                help="With --flow: also delete its offset-syncs topic.",
            ),
        ),
    )


allow_skip_option = click.option(
    "--allow-skip",
    is_flag=True,
    help="Accept that records are never copied: they are lost, unless they are there already.",
)


def rename_options(function: F) -> F:
    """Add the options for connectors and aliases that have other names at the destination."""
    return _apply_in_order(
        function,
        (
            click.option(
                "--rename", multiple=True, metavar="OLD=NEW", help="A connector has a new name."
            ),
            click.option(
                "--rename-alias",
                multiple=True,
                metavar="OLD=NEW",
                help="MirrorMaker calls a cluster by a new alias.",
            ),
        ),
    )


def take_store_options(options: dict[str, Any], *, everywhere: bool = False) -> OffsetStoreOptions:
    """Remove the store's options from `options` and return them. Raises UsageError on conflicts.

    everywhere  without a store, all Connect clusters of the configuration are meant
    """
    where = OffsetStoreOptions(
        connect=options.pop("connect"),
        config_path=options.pop("config_path"),
        worker_config=options.pop("worker_config"),
        kafka=options.pop("kafka"),
        flow=options.pop("flow"),
        strimzi=options.pop("strimzi"),
        kubeconfig=options.pop("kubeconfig"),
        even_if_gitops=options.pop("even_if_gitops"),
    )
    if where.strimzi is not None:
        return _check_strimzi_options(where)
    if where.kubeconfig is not None or where.even_if_gitops:
        raise click.UsageError("--kubeconfig and --even-if-gitops go with --strimzi")
    if where.connect is not None and where.worker_config is not None:
        raise click.UsageError("--connect or --worker-config, not both")
    if where.connect is None and where.worker_config is None and not everywhere:
        raise click.UsageError(
            "say where: --connect NAME --config F, --worker-config F, or --strimzi NAMESPACE/NAME"
        )
    if where.worker_config is None and where.config_path is None:
        raise click.UsageError("--config is missing: the YAML file with the Connect cluster")
    if where.worker_config is None and where.kafka is not None:
        raise click.UsageError("--kafka goes with --worker-config")
    if where.kafka is not None and where.config_path is None:
        raise click.UsageError("--kafka names a cluster of --config")
    if where.flow is not None:
        parse_aliases(where.flow)
    return where


def _check_strimzi_options(where: OffsetStoreOptions) -> OffsetStoreOptions:
    namespace, slash, name = str(where.strimzi).partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.UsageError("--strimzi NAMESPACE/NAME: of the KafkaConnect or KafkaMirrorMaker2")
    if where.connect is not None or where.worker_config is not None:
        raise click.UsageError("--connect, --worker-config or --strimzi: one of them")
    if where.flow is not None:
        raise click.UsageError(
            "--flow goes with --connect or --worker-config; with --strimzi name its connectors, as "
            f"in {where.flow}.MirrorSourceConnector"
        )
    if where.kafka is not None and where.config_path is None:
        raise click.UsageError("--kafka names a cluster of --config")
    return where


def parse_aliases(flow: str) -> tuple[str, str]:
    """Return the aliases of `A->B`. Raises UsageError for anything else.

    One alias may be empty, as source.cluster.alias is where topics keep their names.
    """
    source, arrow, target = flow.partition("->")
    if not arrow or not (source or target):
        raise click.UsageError(f"--flow {flow}: two aliases, as in west->east")
    return source, target


def take_change_options(options: dict[str, Any]) -> ChangeOptions:
    """Remove the options of a change from `options` and return them."""
    return ChangeOptions(
        dry_run=options.pop("dry_run"),
        yes=options.pop("yes"),
        state_dir=options.pop("state_dir"),
        timeout_s=options.pop("timeout_s"),
        allow_new=options.pop("allow_new"),
    )


def _parse_names(connectors: str | None) -> frozenset[str] | None:
    r"""Return names separated by commas; a comma in a name is written as `\,`."""
    if connectors is None:
        return None
    parts = re.split(r"(?<!\\),", connectors)
    return frozenset(part.replace("\\,", ",") for part in parts) - {""}


def _parse_renames(
    option: str, key: tuple[str, ...], *, empty: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return pairs of old and new names; with `empty` one of the two may be empty."""
    found: dict[str, str] = {}
    for text in key:
        old, equals, new = text.partition("=")
        nameless = not (old or new) if empty else not (old and new)
        if not equals or nameless or found.setdefault(old, new) != new:
            raise click.UsageError(f"{option} {text}: OLD=NEW, each OLD once")
    return tuple(found.items())


def _take_document_options(options: dict[str, Any]) -> DocumentOptions:
    return DocumentOptions(
        document=options.pop("offsets", None),
        connectors=_parse_names(options.pop("connectors", None)),
        rename=_parse_renames("--rename", options.pop("rename", ())),
        rename_alias=_parse_renames("--rename-alias", options.pop("rename_alias", ()), empty=True),
    )


connectors_option = click.option(
    "--connectors", help="Only these connectors, comma-separated; \\, is a comma in a name."
)
document_option = click.option(
    "--offsets",
    type=_build_path_type(allow_dash=True),
    metavar="FILE",
    help="KIP-199 JSON; - to read it.",
)


@click.group()
def offsets() -> None:
    """List, export, import and change source and sink offsets."""


@offsets.command("list")
@store_options
@connectors_option
@daemon_options
@output_options
@watch_options
def offsets_list(connectors: str | None, *, output_format: OutputFormat, **options: Any) -> None:
    """List the offsets that Connect would give to a task now: from the daemon, else from Connect,
    else from the topics. Without --connect: of all Connect clusters.
    """
    run = take_watch_options(options, output_format)
    reading = take_read_options({**options})
    for name in ("url", "direct", "timeout_s"):
        del options[name]
    if reading.url is not None and options["config_path"] is None:
        options["config_path"] = Path()  # only the daemon is asked
    where = take_store_options(options, everywhere=True)
    from offsetwatch.cli.offsets import documents as offsets  # noqa: PLC0415 - see the module
    from offsetwatch.cli.offsets import list as listing  # noqa: PLC0415 - see the module

    names = _parse_names(connectors)
    if where.worker_config is not None or where.strimzi is not None:
        sys.exit(run(partial(offsets.print_offsets, where, names, output_format=output_format)))
    shown = partial(
        listing.print_cluster_offsets, where.connect, reading, names, output_format=output_format
    )
    sys.exit(run(shown))


@offsets.command("export")
@store_options
@connectors_option
@click.option("--from-beginning", is_flag=True, help="Include records that were overwritten since.")
@click.option("--output", type=_build_path_type(), help="A file instead of standard output.")
def offsets_export(
    connectors: str | None, *, from_beginning: bool, output: Path | None, **options: Any
) -> None:
    """Print offsets as KIP-199 JSON, which `import` takes. Exit code 1 if a connector could not be
    read: it is named and left out.
    """
    where = take_store_options(options)
    if from_beginning and where.connect is not None:
        raise click.UsageError(
            "--from-beginning: Connect returns only current offsets; its storage has the past: "
            "--worker-config"
        )
    from offsetwatch.cli.offsets import documents as verbs  # noqa: PLC0415

    sys.exit(
        verbs.export_offsets(
            where, _parse_names(connectors), from_beginning=from_beginning, into=output
        )
    )


@offsets.command("diff")
@store_options
@document_option
@rename_options
@output_options
def offsets_diff(*, output_format: OutputFormat, **options: Any) -> None:
    """Compare a document with the current offsets. Exit code 1 if anything differs, or if a
    connector could not be read: it is named and not compared.
    """
    where, wanted = take_store_options(options), _take_document_options(options)
    if wanted.document is None:
        raise click.UsageError("--offsets is missing: the document, or -")
    from offsetwatch.cli.offsets import documents as verbs  # noqa: PLC0415

    sys.exit(verbs.print_diff(where, wanted, output_format=output_format))


@offsets.command("import")
@store_options
@document_option
@connectors_option
@rename_options
@change_options
def offsets_import(**options: Any) -> None:
    """Set the offsets in a document, from a file or from standard input. null removes an offset;
    offsets that are not in the document are not changed.
    """
    where, changing = take_store_options(options), take_change_options(options)
    from offsetwatch.cli.offsets import change as verbs  # noqa: PLC0415

    sys.exit(verbs.import_offsets(where, _take_document_options(options), changing))


@offsets.command("alter")
@click.argument("connector")
@store_options
@click.option("--partition", multiple=True, metavar="JSON", help="A source partition, and")
@click.option("--offset", multiple=True, metavar="JSON", help="its offset, or null.")
@document_option
@change_options
def offsets_alter(
    connector: str, partition: tuple[str, ...], offset: tuple[str, ...], **options: Any
) -> None:
    """Set offsets of one connector, from pairs or from a document (KIP-199, or a PATCH body)."""
    where, changing, wanted = (
        take_store_options(options),
        take_change_options(options),
        _take_document_options(options),
    )
    if len(partition) != len(offset):
        raise click.UsageError("as many --partition as --offset, in the same order")
    if bool(partition) == (wanted.document is not None):
        raise click.UsageError("--partition with --offset, or --offsets")
    from offsetwatch.cli.offsets import change as verbs  # noqa: PLC0415

    pairs = tuple(zip(partition, offset, strict=True))
    sys.exit(verbs.alter_offsets(where, connector, pairs, wanted, changing))


@offsets.command("reset")
@click.argument("connector", required=False)
@store_options
@flow_options
@allow_skip_option
@change_options
def offsets_reset(connector: str | None, **options: Any) -> None:
    """Remove all offsets of a connector, so that it starts over. Or, with --flow and no CONNECTOR,
    set a replication flow of MirrorMaker to the start of each log, or as the options say.
    """
    where, changing = take_store_options(options), take_change_options(options)
    asked = _take_flow_options(where, options)
    if connector is None:
        if asked is None:
            raise click.UsageError("which CONNECTOR, or which --flow?")
        from offsetwatch.cli.offsets import mirror_reset  # noqa: PLC0415

        sys.exit(mirror_reset.reset_flow(where, asked, changing))
    if where.flow is not None and where.connect is not None:
        raise click.UsageError("a CONNECTOR or --flow, not both")
    if asked is not None and asked.more:
        raise click.UsageError(f"{asked.more} goes with --flow, and without a CONNECTOR")
    from offsetwatch.cli.offsets import change as verbs  # noqa: PLC0415

    sys.exit(verbs.reset_offsets(where, connector, changing))


def _take_flow_options(
    where: OffsetStoreOptions, options: dict[str, Any]
) -> FlowResetOptions | None:
    """Remove the options of a flow from `options` and return them; None if no flow is named.

    Raises UsageError if options conflict, or are given without a flow.
    """
    given = {
        "--to-offset": options.pop("to_offset"),
        "--to-time": options.pop("to_time"),
        "--by": options.pop("by"),
    }
    targets = [name for name, value in given.items() if value is not None]
    if len(targets) > 1:
        raise click.UsageError(f"{' or '.join(targets)}, not both")
    topics = _parse_names(options.pop("topics"))
    clear_syncs, allow_skip = options.pop("clear_syncs"), options.pop("allow_skip")
    more = [*targets]
    more += ["--topics"] if topics is not None else []
    more += ["--clear-syncs"] if clear_syncs else []
    more += ["--allow-skip"] if allow_skip else []
    if where.flow is None:
        if more:
            raise click.UsageError(f"{more[0]} goes with --flow")
        return None
    return FlowResetOptions(
        flow=where.flow,
        aliases=parse_aliases(where.flow),
        to_offset=given["--to-offset"],
        to_time=given["--to-time"],
        by=given["--by"],
        topics=topics,
        clear_syncs=clear_syncs,
        allow_skip=allow_skip,
        more=more[0] if more else "",
    )


@offsets.command("rewind")
@click.argument("connector")
@store_options
@click.option(
    "--to",
    "moment",
    required=True,
    help="ISO 8601 with a zone, Unix seconds, or how long ago: '10m ago' (s, m, h, d).",
)
@allow_skip_option
@change_options
def offsets_rewind(connector: str, moment: str, **options: Any) -> None:
    """Set a connector back to its offsets at a moment, from the tables of `history run`."""
    where, changing = take_store_options(options), take_change_options(options)
    allow_skip = options.pop("allow_skip")
    if where.connect is None:
        raise click.UsageError("--connect is missing: the Connect cluster of --config")
    if where.flow is not None:
        raise click.UsageError("--flow goes with `offsets reset`")
    from offsetwatch.cli.offsets import rewind  # noqa: PLC0415

    sys.exit(rewind.rewind_connector(where, connector, moment, changing, allow_skip=allow_skip))
