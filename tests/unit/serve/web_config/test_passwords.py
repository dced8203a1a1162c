"""What a check of passwords costs, and whom."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator

import bcrypt
import pytest
from pydantic import SecretStr

from offsetwatch.serve.web_config import passwords
from offsetwatch.serve.web_config.passwords import (
    FAILURES_MAX,
    REMEMBERED_MAX,
    WAITING_MAX,
    WINDOW_S,
    AuthFailureCounter,
    PasswordChecker,
    PasswordRejection,
)

from .listeners import HASH, PASSWORD

USERS = {"ada": SecretStr(HASH)}


def header(user: str = "ada", password: bytes = PASSWORD.encode()) -> list[str]:
    return ["Basic " + base64.b64encode(user.encode() + b":" + password).decode()]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The hash of each check, in their order."""
    results: list[bytes] = []
    real = bcrypt.checkpw

    def check(password: bytes, hashed: bytes) -> bool:
        results.append(hashed)
        return real(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", check)
    return results


@pytest.fixture
def known() -> Iterator[PasswordChecker]:
    built = PasswordChecker(AuthFailureCounter(), "test")
    yield built
    built.end()


def check(
    known: PasswordChecker, *headers: list[str], now: float = 0.0, users=USERS
) -> list[str | PasswordRejection]:
    async def all_of_them() -> list[str | PasswordRejection]:
        return [await known.authenticate(item, users, "a", now) for item in headers]

    return asyncio.run(all_of_them())


def test_who_was_right_is_checked_once(known, checked):
    assert check(known, *[header()] * 3) == ["ada"] * 3
    assert len(checked) == 1


def test_who_was_wrong_is_never_remembered(known, checked):
    assert check(known, *[header(password=b"x")] * 3) == [PasswordRejection.WRONG] * 3
    assert len(checked) == 3


def test_what_is_remembered_holds_no_password_and_no_hash(known):
    check(known, header())
    (proof,) = known._remembered
    assert len(proof) == 32
    assert PASSWORD not in repr(vars(known))
    assert HASH not in repr(vars(known))


def test_an_unknown_user_is_checked_against_a_hash_of_the_dearest_cost(known, checked):
    dear = {**USERS, "bob": SecretStr(HASH.replace("$04$", "$05$"))}
    assert check(known, header("nobody"), users=dear) == [PasswordRejection.WRONG]
    (decoy,) = checked
    assert decoy.startswith(b"$2b$05$")


def test_ten_wrong_ones_of_an_address_are_enough_for_a_minute(known, checked):
    check(known, *[header(password=b"x")] * FAILURES_MAX)
    assert check(known, header(), header(password=b"x")) == [PasswordRejection.THROTTLED] * 2
    assert len(checked) == FAILURES_MAX
    assert check(known, header(), now=WINDOW_S + 1) == ["ada"]


def test_right_ones_do_not_count_as_wrong(known):
    users = {f"u{number}": USERS["ada"] for number in range(FAILURES_MAX * 2)}
    assert check(known, *map(header, users), users=users) == list(users)


def test_only_so_many_are_remembered(known):
    users = {f"u{number}": USERS["ada"] for number in range(REMEMBERED_MAX + 2)}
    check(known, *map(header, users), users=users)
    assert len(known._remembered) == REMEMBERED_MAX


def test_only_so_many_wait_and_the_loop_is_free_meanwhile(known, monkeypatch):
    go = threading.Event()

    def slow(_password: bytes, _hashed: bytes) -> bool:
        return go.wait(20)

    monkeypatch.setattr(passwords, "_is_correct_password", slow)

    async def check_all() -> list[str | PasswordRejection]:
        requests = [
            asyncio.create_task(known.authenticate(header(), USERS, f"a{number}", 0.0))
            for number in range(WAITING_MAX + 3)
        ]
        done, _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result() for task in done} == {
            PasswordRejection.THROTTLED
        }  # while all others wait
        go.set()
        return list(await asyncio.gather(*requests))

    answers = asyncio.run(check_all())
    assert answers.count("ada") == WAITING_MAX
    assert answers.count(PasswordRejection.THROTTLED) == 3


def test_as_everywhere_only_72_bytes_count_and_any_byte_may_be_one(known):
    long = b"\x00\xff" + b"x" * 100
    users = {"ada": SecretStr(bcrypt.hashpw(long[:72], bcrypt.gensalt(4)).decode())}
    assert check(known, header(password=long), users=users) == ["ada"]
    assert check(known, header(password=long[:71]), users=users) == [PasswordRejection.WRONG]


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
def test_every_kind_of_hash_that_others_make_is_understood(known, prefix):
    users = {"ada": SecretStr(HASH.replace("$2b$", prefix))}
    assert check(known, header(), users=users) == ["ada"]


def test_without_a_header_nothing_is_counted(known):
    assert check(known, *[[]] * (FAILURES_MAX * 2)) == [PasswordRejection.NOTHING] * (
        FAILURES_MAX * 2
    )
    assert check(known, header()) == ["ada"]
