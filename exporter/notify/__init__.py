"""Findings -> people: Alertmanager and plain webhooks."""
