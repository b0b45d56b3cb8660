"""Reads arrays from a Parquet file. Needs the `parquet` extra."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist_client.errors import FixError

GENERATOR = "generator"
"""A column with the generator's name of each row. The rows of each name become separate arrays."""


def read(file: Path) -> dict[str, NDArray[Any]]:
    """Read every column of lists as an array (n, d). Without such columns, read all numbers as one array (n, columns).

    The latter is named by the file's stem. With a column "generator" the arrays are named `<generator>/<column>`.
    Raises FixError for other columns, lists of unequal lengths, missing values, and if pyarrow is not installed.
    """
    try:
        arrow = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise FixError("reading Parquet files needs pyarrow: pip install 'optimist[parquet]'") from None
    with file.open("rb") as stream:
        table: Any = arrow.read_table(stream)
    columns: dict[str, Any] = {name: table.column(name).combine_chunks() for name in table.column_names}
    for name, column in columns.items():
        if column.null_count:
            raise FixError(f"column {name!r}: expected a value in every row, found {column.null_count} missing")
    names = columns.pop(GENERATOR, None)
    arrays = {name: _matrix(name, column) for name, column in columns.items() if _is_list(column.type)}
    if not arrays:
        numbers = [np.asarray(column) for column in columns.values()]
        arrays = {file.stem: np.stack(numbers, axis=1)} if numbers else {}
    if names is None:
        return arrays
    of_row = np.asarray(names.to_pylist(), dtype=str)
    found = dict.fromkeys(of_row.tolist())
    return {f"{generator}/{name}": rows[of_row == generator] for generator in found for name, rows in arrays.items()}


def _is_list(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _matrix(name: str, column: Any) -> NDArray[Any]:
    lengths = np.unique(np.asarray(column.value_lengths()))
    if len(lengths) > 1:
        raise FixError(f"column {name!r}: expected lists of one length, found {lengths[0]} to {lengths[-1]}")
    values = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1) if len(column) else values.reshape(0, 1)
