"""What all verbs that change something share."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.cli.offsets import change, execute
from offsetwatch.cli.offsets.execute import ChangeOptions
from offsetwatch.cli.offsets.store_options import (
    OffsetStoreOptions,
)
from offsetwatch.errors import AccessDenied


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_a_ctrl_c_while_something_is_changed(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), execute.interrupt_on_signals():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_thread_leaves_signals_alone():
    done = []

    def work():
        with execute.interrupt_on_signals():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert done == [signal.getsignal(signal.SIGTERM)]


def test_a_name_that_is_to_be_typed_is_shown_as_what_it_is(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "orders\n", raising=False)
    name = "\u202esredro"  # a terminal shows it as "orders"
    assert not execute.confirm_by_name(name, yes=False)
    assert "(\\u202esredro)" in capsys.readouterr().err
    assert execute.confirm_by_name("orders", yes=False)


def denied(*_: Any, **__: Any) -> Any:
    raise AccessDenied("east", "no", advice="set sasl.password")


def test_what_a_cluster_denies_comes_with_what_to_do_about_it(monkeypatch, tmp_path, capsys):
    how = execute.ExecutionOptions(folder=tmp_path)
    none: Any = None
    assert (
        execute.change_connector(how, store_name="p", connector="c", driver=none, prepare=denied)
        == 6
    )
    assert capsys.readouterr().err == "denied: east: no; set sasl.password\n"

    @contextmanager
    def way_of(*_: Any, **__: Any) -> Any:
        yield none

    monkeypatch.setattr(change, "open_offset_store", way_of)
    monkeypatch.setattr(change, "_finish_earlier_plans", lambda *_: {})
    where = OffsetStoreOptions(None, None, Path("worker.properties"))
    how_much = ChangeOptions(
        dry_run=False, yes=True, state_dir=tmp_path, timeout_s=1.0, allow_new=False
    )
    assert change.run_changes(where, (), denied, how_much, typed=False) == 6
    assert capsys.readouterr().err == "denied: east: no; set sasl.password\n"
