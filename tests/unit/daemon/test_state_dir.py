"""What must survive a restart, in a folder of one daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetwatch.daemon.state_dir import StateDir, load_document
from offsetwatch.errors import ConfigError


def recalled(state: StateDir, name: str = "judge") -> list[bytes]:
    results: list[bytes] = []
    state.recall(name, results.append)
    return results


def test_what_was_saved_is_recalled_by_the_next_one(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "deep" / "state")
    assert recalled(state) == []
    assert state.save("judge", b'{"a":1}')
    assert state.save("judge", b'{"a":2}')
    assert state.save("replication", b"{}")
    state.close()
    again = StateDir(tmp_path / "deep" / "state")
    assert recalled(again) == [b'{"a":2}']
    again.close()


def test_two_daemons_cannot_use_one_folder(tmp_path: Path) -> None:
    first = StateDir(tmp_path)
    with pytest.raises(
        ConfigError,
        match=r"another offsetwatch uses .*: stop it, or give this one a state_dir of its own",
    ):
        StateDir(tmp_path)
    first.close()
    StateDir(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"state_dir: .*file/state cannot be written in"):
        StateDir(tmp_path / "file" / "state")


def test_a_document_that_is_refused_is_put_aside_and_not_recalled_again(tmp_path: Path) -> None:
    def refuse(document: bytes) -> None:
        raise ValueError(document.decode())

    state = StateDir(tmp_path)
    state.save("judge", b"half a docu")
    load_document(tmp_path, "judge", refuse)
    assert (tmp_path / "judge.json").exists()
    state.recall("judge", refuse)
    assert not (tmp_path / "judge.json").exists()
    assert (tmp_path / "judge.damaged.json").read_bytes() == b"half a docu"
    state.recall("judge", refuse)
    state.close()


def test_a_save_that_fails_says_so_and_leaves_what_was_there(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.save("judge", b"old")
    (tmp_path / "judge.fresh").mkdir()
    assert not state.save("judge", b"new")
    assert recalled(state) == [b"old"]
    state.close()
