"""Nouns of Kafka Connect: connectors, tasks, their states, and paths of its REST API."""
