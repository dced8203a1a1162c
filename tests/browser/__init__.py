"""The status page in a real Chromium, against the real listener."""
