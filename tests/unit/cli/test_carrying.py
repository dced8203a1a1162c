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
