"""`python -m offsetwatch` is the `offsetwatch` command."""

from offsetwatch.cli import entry

if __name__ == "__main__":
    entry()
