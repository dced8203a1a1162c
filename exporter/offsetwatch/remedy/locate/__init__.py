"""Finding the record that a task fails at, from what was read and from its configuration. Pure."""
