"""Measure the heads of a model on one shard of a corpus' geometry documents."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from tqdm import tqdm

from .. import attention, extraction, geometry, measurements, models, provenance, rankings, tables, winners
from ..errors import InvariantError, UserError
from ..files import replacing, sha256

logger = logging.getLogger(__name__)


def add_arguments(parser) -> None:
    """Command-line arguments.

    Settings: model, corpus, seed, dtype, device, length, sizes, repeats, distances, queries, pair_documents,
    batch_size, shard, shards.
    """
    parser.add_argument("--checkpoint", type=Path, required=True, help="converted model")
    parser.add_argument("--tokens", type=Path, required=True, help="Parquet of windows")
    parser.add_argument("--output", type=Path, required=True, help="NetCDF of the shard")


def run(options) -> None:
    """Write the shard's labelled arrays, once what was written is read back and found consistent."""
    settings = options.settings
    torch.set_num_threads(options.threads)
    frame, windows = tables.read_parquet(options.tokens)
    frame = frame[frame["split"] == "geometry"].sort_values("order")
    frame = frame.iloc[np.array_split(np.arange(len(frame)), settings["shards"])[settings["shard"]]]
    model = models.load_model(options.checkpoint, settings["dtype"], settings["device"])
    attention.install(model)
    _check_sizes(settings, model.config.get_text_config())
    measured = geometry.Settings(settings["length"], settings["sizes"], settings["distances"])
    data = extraction.dataset(
        _batches(model, frame, settings, measured), list(frame["document"]), list(frame["order"]), measured
    )
    record = provenance.record(
        "extract",
        settings,
        sources=windows["sources"],
        bos=windows["bos"],
        inputs={"tokens": sha256(options.tokens)},
    )
    data.attrs["provenance"] = provenance.canonical(record)
    with replacing(options.output) as temporary:
        # By way of memory, for HDF5 crashes where the disk is full.
        temporary.write_bytes(data.to_netcdf(engine="h5netcdf", encoding=extraction.encoding(data)))
        measurements.read_shards([temporary], data.data_vars, model=settings["model"], corpus=settings["corpus"])


def _batches(
    model, frame: pd.DataFrame, settings: dict, measured: geometry.Settings
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the quantities of each batch of documents; once memory runs out, of batches half as large."""
    start, size = 0, settings["batch_size"]
    with tqdm(total=len(frame), desc=f"{settings['model']} {settings['corpus']}", disable=None) as bar:
        while start < len(frame):
            batch = frame.iloc[start : start + size]
            found = _within_memory(model, batch, settings, measured)
            if found is None:
                size = len(batch) // 2
                logger.warning("out of memory with %d documents in a pass; going on with %d", len(batch), size)
                continue
            yield found
            start += len(batch)
            bar.update(len(batch))


def _within_memory(model, batch: pd.DataFrame, settings: dict, measured: geometry.Settings):
    """The quantities of a batch; None where memory ran out, an error where it did with one document."""
    try:
        return _measured(model, batch, settings, measured)
    except InvariantError as error:
        documents = ", ".join(map(str, batch["document"]))
        raise InvariantError(f"{settings['model']}, {settings['corpus']}, batch of {documents}: {error}") from error
    except (RuntimeError, MemoryError) as error:
        if not (isinstance(error, MemoryError) or should_reduce_batch_size(error)):
            raise
        if len(batch) == 1:
            raise UserError(
                f"{settings['model']}, {settings['corpus']}: memory does not hold one window of {settings['length']} "
                "tokens; lower windows.length, or take a machine or GPUs (models[].gpus) with more memory"
            ) from error
    clear_device_cache(garbage_collection=True)
    return None


def _measured(model, batch: pd.DataFrame, settings: dict, measured: geometry.Settings) -> dict[str, np.ndarray]:
    """The quantities of a batch of windows."""
    rows = winners.query_positions(settings["length"], settings["queries"])
    drawn = {name: settings[name] for name in ("seed", "corpus", "repeats")}
    orders = [
        rankings.random_orders(**drawn, document=document, sources=settings["length"]) for document in batch["document"]
    ]
    tokens = torch.from_numpy(np.stack(list(batch["tokens"])).astype(np.int64))
    pairs = int((batch["order"] < settings["pair_documents"]).sum())
    return extraction.measure_batch(model, tokens, torch.stack(orders), rows, measured, pairs)


def _check_sizes(settings: dict, config) -> None:
    window = getattr(config, "sliding_window", None)
    if window and min(settings["sizes"]) >= window - 1:
        raise UserError(
            f"extraction.sizes starts at {min(settings['sizes'])}, but layers of model {settings['model']!r} see only "
            f"{window} sources; add a size below {window - 1}"
        )
