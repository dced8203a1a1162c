"""`python -m exporter` is the `offsetwatch` command."""

from exporter.cli import entry

if __name__ == "__main__":
    entry()
