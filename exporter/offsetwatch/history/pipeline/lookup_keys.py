"""Raw keys that the tasks of a connector may look up, as a condition on rows of bronze."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from offsetwatch.decode.dialects import MIRROR_SOURCE, list_class_names


def build_lookup_condition(class_name: Column) -> Column:
    """Return the condition on rows with canonical and key_form, by the class of their connector.

    It is that of decode/dialects.py (is_lookup_key). Bronze has decided it for a class that is not
    known; tasks of a class other than MirrorMaker's look up MirrorMaker's fields in any order.
    """
    name = sf.trim(class_name)
    in_any_order = (name != "") & ~name.isin(*list_class_names(MIRROR_SOURCE))
    ordered = (sf.col("key_form") == "ordered") & in_any_order
    return sf.col("canonical") | sf.coalesce(ordered, sf.lit(False))
