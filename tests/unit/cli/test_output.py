import pytest

from exporter.cli import output


def test_square_brackets_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    output.table("Offsets", ("partition", "n#"), [("filename=/data/[red]in.txt", 1), (None, 2)])
    printed = capsys.readouterr().out
    assert "filename=/data/[red]in.txt" in printed
    assert printed.splitlines()[-1].split() == ["-", "2"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (0.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (61.0, "1 min 1 s"),
        (3599.7, "1 h 0 min"),
        (90_061.0, "1 d 1 h"),
    ],
)
def test_an_age_is_told_in_its_two_largest_units(seconds: float | None, text: str | None) -> None:
    assert output.age(seconds) == text


def test_what_others_wrote_does_not_move_the_cursor(capsys):
    output.error("a\x1b[2Jb\u202ec\r\nd \u00e9")
    assert capsys.readouterr().err == "a\\x1b[2Jb\\u202ec\\r\nd \u00e9\n"
    output.table("T", ("a",), [("x\x1b]0;y\x07",)])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a[/b]", "[red]", "[link=http://h]x", "x\x1b]0;y\x07", "\u202ex"])
def test_a_name_in_a_heading_is_text_too(name: str, capsys: pytest.CaptureFixture[str]):
    output.table(f"Plans of {name}", ("a",), [("x",)])
    assert capsys.readouterr().out.splitlines()[0].rstrip() == f"Plans of {output.visible(name)}"
