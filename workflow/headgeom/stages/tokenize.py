"""Cut one token window a document and draw the splits of one (model, corpus) pair."""

import json
import logging
import math
from pathlib import Path

import numpy as np
import pandas as pd

from .. import documents, models, provenance, tables, windows
from ..errors import UserError

logger = logging.getLogger(__name__)


def add_arguments(parser) -> None:
    """Command-line arguments; settings: model, corpus, seed, length, documents, bos."""
    parser.add_argument("--checkpoint", type=Path, required=True, help="converted model")
    parser.add_argument("--documents", type=Path, required=True, help="converted corpus")
    parser.add_argument("--output", type=Path, required=True, help="Parquet of windows")


def run(options) -> None:
    """Write the windows; too few documents of the length are an error."""
    settings = options.settings
    corpus, texts = tables.read_provenance(options.documents), documents.Texts(options.documents)
    model = json.loads((options.checkpoint / "provenance.json").read_text())
    _check_length(settings, model)
    tokenizer = models.load_tokenizer(options.checkpoint)
    bos, rule = models.bos_token(options.checkpoint, settings["bos"], tokenizer)
    short = 0

    def tokenize(text: str) -> list[int]:
        nonlocal short
        tokens = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        short += len(tokens) < settings["length"] - 1
        return tokens

    names = ("seed", "model", "corpus", "length", "documents")
    cut = list(windows.windows(texts, tokenize, bos=bos, **{name: settings[name] for name in names}))
    wanted = sum(settings["documents"].values())
    if len(cut) < wanted:
        raise UserError(
            f"corpus {settings['corpus']!r} has {len(cut)} documents of at least {settings['length'] - 1} tokens of "
            f"{settings['model']!r}, but windows.documents asks for {wanted} ({settings['documents']}); "
            "lower windows.documents or windows.length"
        )
    _check_vocabulary(settings, model, max(max(window.tokens) for window in cut))
    record = provenance.record(
        "tokenize",
        settings,
        sources={"model": model, "corpus": corpus},
        bos={"token": bos, "rule": rule},
        documents=len(texts),
        too_short=short,
        read=len(cut) + short,
    )
    frame = pd.DataFrame(vars(window) | {"tokens": np.array(window.tokens, dtype=np.int32)} for window in cut)
    tables.write_parquet(frame, options.output, record)
    logger.info("%d windows of %d tokens, %d documents too short", len(cut), settings["length"], short)


def _check_length(settings: dict, model: dict) -> None:
    limit = model.get("max_positions")
    if limit and settings["length"] > limit:
        raise UserError(
            f"windows.length is {settings['length']}, but model {settings['model']!r} has {limit} positions; "
            f"set windows.length to at most {limit}"
        )


def _check_vocabulary(settings: dict, model: dict, largest: int) -> None:
    if largest >= model.get("vocabulary", math.inf):
        raise UserError(
            f"the tokenizer of model {settings['model']!r} makes token {largest}, but the model has a vocabulary of "
            f"{model['vocabulary']}; it is another model's tokenizer"
        )
