"""Databases of a lab, the Debezium connectors that read them, and what is written to them."""
