"""The demonstrations: what `make demo` shows."""
