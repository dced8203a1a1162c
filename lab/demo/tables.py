"""Tables of the demonstrations."""

from rich.table import Table


def make_table(*columns: str) -> Table:
    """Return a table without lines; a column whose name ends with # is of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        name = column.removesuffix("#")
        table.add_column(name, justify="left" if name == column else "right", overflow="ellipsis")
    return table
