import pytest

from exporter.cli import output


def test_square_brackets_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    output.table("Offsets", ("partition", "n#"), [("filename=/data/[red]in.txt", 1), (None, 2)])
    printed = capsys.readouterr().out
    assert "filename=/data/[red]in.txt" in printed
    assert printed.splitlines()[-1].split() == ["-", "2"]
