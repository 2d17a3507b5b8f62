"""Parquet files that carry their provenance: documents and token windows."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .errors import UserError
from .files import replacing
from .provenance import canonical

KEY = b"provenance"


def write_parquet(
    frame: pd.DataFrame, path: str | Path, provenance: dict[str, Any], schema: pa.Schema | None = None
) -> None:
    """Write ``frame`` without its index, the provenance as JSON in the metadata key ``provenance``.

    ``schema`` fixes the column types, such as ``pa.list_(pa.int32())``; without it they are inferred. Equal input
    gives equal bytes.
    """
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata({KEY: canonical(provenance).encode()}), temporary)


def read_parquet(path: str | Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table and the provenance that ``write_parquet`` wrote. Raises UserError if there is no provenance."""
    provenance = read_provenance(path)
    return pq.read_table(path).to_pandas(), provenance


def read_provenance(path: str | Path) -> dict[str, Any]:
    """The provenance alone. Raises UserError if there is none."""
    metadata = pq.read_metadata(path).metadata or {}
    if KEY not in metadata:
        raise UserError(f"{path} has no provenance in its metadata: it was not written by this workflow.")
    return json.loads(metadata[KEY])
