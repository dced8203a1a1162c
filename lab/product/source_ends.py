"""What a daemon shows of a connector and of the end of its source."""

from typing import Any

from lab.product.offsetwatch import Product


def find_source_end(product: Product, connector: str) -> dict[str, Any] | None:
    """Return what the daemon shows of the end of a connector's source; None while it is unknown."""
    for item in product.get("/api/v1/connectors")["connectors"]:
        if item["name"] == connector:
            for partition in item["source_partitions"]:
                end: dict[str, Any] | None = partition.get("source_end")
                if end is not None:
                    return end
    return None


def find_verdict(product: Product, connector: str) -> str:
    """Return the verdict of a connector; empty while there is none."""
    for judgement in product.get("/api/v1/findings")["judgements"]:
        if (judgement["scope"], judgement["connector"]) == ("connector", connector):
            return str(judgement["verdict"])
    return ""
