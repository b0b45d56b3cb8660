"""Reads the columns of Parquet files. Needs the `parquet` extra."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError
from optimist_client.installed import install_hint


def columns_of(file: Path) -> dict[str, list[Any] | NDArray[Any]]:
    """Every column by name: lists of one length as an array (n, d), others as a list of values, None for missing ones.

    Raises FixError for lists of unequal lengths, and if pyarrow is not installed.
    """
    try:
        arrow = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise FixError(f"reading Parquet files needs pyarrow: {install_hint('parquet')}") from None
    with file.open("rb") as stream:
        table: Any = arrow.read_table(stream)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return {name: _matrix(name, own) if _is_list(own.type) else own.to_pylist() for name, own in columns.items()}


def _is_list(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    inner = kind.value_type if is_list else None
    return is_list and (types.is_integer(inner) or types.is_floating(inner))


def _matrix(name: str, column: Any) -> NDArray[Any]:
    if column.null_count:
        raise FixError(f"column {name!r}: expected a value in every row, found {column.null_count} missing")
    lengths = np.unique(np.asarray(column.value_lengths()))
    if len(lengths) > 1:
        raise FixError(f"column {name!r}: expected lists of one length, found {lengths[0]} to {lengths[-1]}")
    values = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1) if len(column) else values.reshape(0, 1)
