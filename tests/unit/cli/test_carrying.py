"""What all verbs that change something share."""

from __future__ import annotations

import signal
import threading

import pytest

from exporter.cli import carrying


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_a_ctrl_c_while_something_is_changed(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), carrying.interruptible():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_thread_leaves_signals_alone():
    done = []

    def work():
        with carrying.interruptible():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert done == [signal.getsignal(signal.SIGTERM)]


def test_a_name_that_is_to_be_typed_is_shown_as_what_it_is(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "orders\n", raising=False)
    name = "\u202esredro"  # a terminal shows it as "orders"
    assert not carrying.confirmed(name, yes=False)
    assert "(\\u202esredro)" in capsys.readouterr().err
    assert carrying.confirmed("orders", yes=False)
