"""The only code that can change anything outside: connectors, offsets, records, topics."""
