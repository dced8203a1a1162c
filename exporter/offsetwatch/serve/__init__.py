"""Snapshot -> HTTP: metrics, JSON and health for readers. Nothing here changes a cluster."""
