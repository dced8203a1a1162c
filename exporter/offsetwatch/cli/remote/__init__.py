"""Asking a running daemon over HTTP, on the same machine or on another."""
