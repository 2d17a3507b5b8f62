"""Tables as files: a CSV that is exact, a Markdown table that is readable, and the provenance of both."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .files import replacing

ABSENT = "–"

_TYPES = {"size": "Int64"} | dict.fromkeys(("model", "corpus", "first", "second", "document"), "str")


def labelled(frame: pd.DataFrame, **names: str) -> pd.DataFrame:
    """The frame with a constant column for each name put in front."""
    return pd.concat([pd.DataFrame(names, index=frame.index), frame], axis=1)


def depth_columns(frame: pd.DataFrame, layers: np.ndarray) -> pd.DataFrame:
    """The columns of the table ``depth``; ``relative_depth`` runs from 0 in the first layer to 1 in the last."""
    span = max(layers.max() - layers.min(), 1)
    frame = frame.assign(relative_depth=(frame["layer"] - layers.min()) / span)
    frame["size"] = frame.get("size", pd.Series(pd.NA, frame.index)).astype("Int64")
    return frame[["layer", "relative_depth", "quantity", "size", "mean", "low", "high"]]


def quantity_table(rows: list[tuple]) -> pd.DataFrame:
    """Rows of (quantity, size or None, estimate) as columns quantity, size, value, low and high."""
    flat = [(name, size, *map(float, estimate)) for name, size, estimate in rows]
    return pd.DataFrame(flat, columns=["quantity", "size", "value", "low", "high"]).astype({"size": "Int64"})


def read_table(path: Path) -> pd.DataFrame:
    """A table as ``write_table`` wrote it: pandas reads floats back exactly, and names stay texts."""
    return pd.read_csv(path, dtype=_TYPES, keep_default_na=False, na_values=[""])


def write_table(
    directory: Path, name: str, frame: pd.DataFrame, record: dict[str, Any], readable: pd.DataFrame | None = None
) -> None:
    """Write ``name``.csv, ``name``.json and, of a readable version, ``name``.md.

    Floats are written with the fewest digits that give them back exactly; missing values are empty.
    """
    with replacing(directory / f"{name}.csv") as path:
        frame.to_csv(path, index=False, lineterminator="\n")
    with replacing(directory / f"{name}.json") as path:
        path.write_text(json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    if readable is not None:
        with replacing(directory / f"{name}.md") as path:
            path.write_text(markdown(readable), encoding="utf-8")


def markdown(frame: pd.DataFrame) -> str:
    """A Markdown table; floats to three significant digits, a dash for what is missing."""
    cells = [[shown(value) for value in row] for row in frame.itertuples(index=False)]
    lines = [[str(column) for column in frame.columns], ["---"] * frame.shape[1], *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def shown(value: Any) -> str:
    """One value as a reader wants it."""
    if pd.isna(value):
        return ABSENT
    if isinstance(value, float):
        return np.format_float_positional(value, precision=3, fractional=False, trim="-")
    return str(value).replace("|", "\\|")


def with_interval(frame: pd.DataFrame, value: str = "mean") -> pd.DataFrame:
    """The columns ``value``, low and high as one, ``value [low, high]``, in the place of ``value``."""
    texts = [
        ABSENT if pd.isna(mean) else f"{shown(mean)} [{shown(low)}, {shown(high)}]"
        for mean, low, high in frame[[value, "low", "high"]].itertuples(index=False)
    ]
    return frame.assign(**{value: texts}).drop(columns=["low", "high"])


def wide(frame: pd.DataFrame, columns: str, value: str, prefix: str = "") -> pd.DataFrame:
    """A column of ``value`` for each label of ``columns``, in the order of first appearance, as are the rows."""
    index = [name for name in frame.columns if name not in (columns, value)]
    table = frame.pivot(index=index, columns=columns, values=value)
    table = table.loc[pd.MultiIndex.from_frame(frame[index].drop_duplicates()), frame[columns].drop_duplicates()]
    table.columns = [f"{prefix}{label}" for label in table.columns]
    return table.reset_index()
