"""Grafana dashboards, built from the metric catalogue. See build.py."""
