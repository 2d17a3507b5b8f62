"""Measure the heads of a model on one shard of a corpus' geometry documents."""

import logging
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from .. import attention, extraction, geometry, models, provenance, rankings, tables, winners
from ..errors import UserError
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
    """Write the shard's labelled arrays."""
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
        data.to_netcdf(temporary, engine="h5netcdf", encoding=extraction.encoding(data))


def _batches(model, frame, settings: dict, measured: geometry.Settings):
    """Yield the quantities of each batch of documents."""
    rows = winners.query_positions(settings["length"], settings["queries"])
    size = settings["batch_size"]
    for start in tqdm(range(0, len(frame), size), desc=f"{settings['model']} {settings['corpus']}", disable=None):
        batch = frame.iloc[start : start + size]
        orders = torch.stack(
            [
                rankings.random_orders(
                    settings["seed"], settings["corpus"], document, settings["repeats"], settings["length"]
                )
                for document in batch["document"]
            ]
        )
        tokens = torch.from_numpy(np.stack(list(batch["tokens"])).astype(np.int64))
        pairs = int((batch["order"] < settings["pair_documents"]).sum())
        yield extraction.measure_batch(model, tokens, orders, rows, measured, pairs)


def _check_sizes(settings: dict, config) -> None:
    window = getattr(config, "sliding_window", None)
    if window and min(settings["sizes"]) >= window - 1:
        raise UserError(
            f"extraction.sizes starts at {min(settings['sizes'])}, but layers of model {settings['model']!r} see only "
            f"{window} sources; add a size below {window - 1}"
        )
