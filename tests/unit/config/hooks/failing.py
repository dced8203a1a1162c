"""A hook's module that cannot be imported, and says a secret while failing."""

raise RuntimeError("hunter2")
