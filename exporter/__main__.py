"""`python -m exporter` is the `offsetwatch` command."""

from exporter.cli import main

if __name__ == "__main__":
    main()
