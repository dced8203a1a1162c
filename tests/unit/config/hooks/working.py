"""A hook that works."""


def token(config: str) -> tuple[str, float]:
    return f"token for {config}", 2_000_000_000.0
