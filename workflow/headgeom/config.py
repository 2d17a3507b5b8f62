"""A run's config: validation against config/schema.yaml, defaults, and the checks that a schema cannot say."""

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend

from .errors import UserError

# JSON Schema counts 24.0 as an integer and NaN as a number; neither is one of ours.
_Validator = extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda checker, value: isinstance(value, int) and not isinstance(value, bool)
    ).redefine(
        "number",
        lambda checker, value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    ),
)

SCHEMA = Path(__file__).resolve().parents[2] / "config" / "schema.yaml"


def validated(config: dict[str, Any], origin: str, sources: bool = True) -> dict[str, Any]:
    """A copy of ``config`` with defaults filled in and restricted by its ``only``.

    ``origin`` names the config file(s) in messages; ``sources``: whether local models and corpora must be there.
    Raises UserError with the key, what was found and the fix.
    """
    schema = yaml.safe_load(SCHEMA.read_text())
    error = best_match(_Validator(schema).iter_errors(config))
    if error is not None:
        raise UserError(f"{origin}: {_explain(error)}")
    config = _with_defaults(config, schema, schema)
    paths = [_check_paths] if sources else []
    for check in (_check_names, _check_sizes, _check_documents, *paths, _check_removal):
        problem = check(config)
        if problem:
            raise UserError(f"{origin}: {problem}")
    for entry in config["models"] + config["corpora"]:
        entry.setdefault("title", entry["name"])
    for kind in ("models", "corpora") if "removal" in config else ():
        config["removal"].setdefault(kind, [entry["name"] for entry in config[kind]])
    for kind, names in config["only"].items():
        config[kind] = [entry for entry in config[kind] if entry["name"] in names]
    return config


def own_removal(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The merged ``config`` with the ``removal`` of one's own config, ``given``, whole; without one if it has none.

    Merged key by key, a run of other models would inherit the names of the default's.
    """
    rest = {key: value for key, value in config.items() if key != "removal"}
    return rest | {key: given[key] for key in ("removal",) if key in given}


def _explain(error: ValidationError) -> str:
    """One line from a schema violation."""
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    if error.validator == "additionalProperties":
        known = sorted(error.schema["properties"])
        unknown = sorted(set(error.instance) - set(known), key=str)
        where = f" in {key}" if key else ""
        return f"unknown key {', '.join(map(repr, unknown))}{where}; known keys: {', '.join(known)}"
    if error.validator == "required":
        missing = sorted(set(error.validator_value) - set(error.instance))
        return f"{key or 'the config'} lacks the key {', '.join(map(repr, missing))}; see config/schema.yaml"
    described = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
    return f"{key or 'the config'}: {error.message}" + (f" ({described.strip()})" if described else "")


def _with_defaults(value: Any, schema: dict, root: dict) -> Any:
    """``value`` with the schema's defaults, recursively; the input is left as it is."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]] | {k: v for k, v in schema.items() if k != "$ref"}
    if isinstance(value, list):
        return [_with_defaults(item, schema.get("items", {}), root) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    filled = {key: sub["default"] for key, sub in properties.items() if "default" in sub} | value
    return {key: _with_defaults(item, properties.get(key, {}), root) for key, item in filled.items()}


def _check_names(config: dict[str, Any]) -> str | None:
    if config["run"] == "reference":
        return "run: 'reference' is the name of the committed results; choose another"
    for kind in ("models", "corpora"):
        counts = Counter(entry["name"] for entry in config[kind])
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            return f"{kind}: the name {twice[0]!r} is used {counts[twice[0]]} times; give each entry its own"
        unknown = sorted(set(config["only"].get(kind, [])) - set(counts))
        if unknown:
            return f"only.{kind}: {unknown[0]!r} is none of {', '.join(counts)}"
    return None


def _check_sizes(config: dict[str, Any]) -> str | None:
    sizes, length = config["extraction"]["sizes"], config["windows"]["length"]
    if sizes != sorted(sizes):
        return f"extraction.sizes: {sizes} is not ascending"
    # Pool no_sink has length - 1 sources, and N must stay below the number of sources.
    if sizes[-1] >= length - 1:
        return (
            f"extraction.sizes: {sizes[-1]} is too large for windows of {length} tokens (windows.length); "
            f"sizes must be below {length - 1}"
        )
    if config["extraction"]["queries"] > length // 2:
        return f"extraction.queries: {config['extraction']['queries']} positions do not fit {length // 2} tokens"
    return None


def _check_documents(config: dict[str, Any]) -> str | None:
    shards, documents = config["extraction"]["shards"], config["windows"]["documents"]["geometry"]
    if shards > documents:
        return f"extraction.shards: {shards} shards for {documents} documents (windows.documents.geometry)"
    pairs = config["extraction"]["pair_documents"]
    if pairs > documents:
        return f"extraction.pair_documents: {pairs} of {documents} documents (windows.documents.geometry); lower it"
    return None


def _check_paths(config: dict[str, Any]) -> str | None:
    for kind in ("models", "corpora"):
        for number, entry in enumerate(config[kind]):
            path = entry["source"].get("path")
            if path is not None and not os.path.exists(path):  # noqa: PTH110 (a Path raises where it is too long)
                return f"{kind}[{number}].source.path: there is no {path!r} ({kind} entry {entry['name']!r})"
    return None


def _check_removal(config: dict[str, Any]) -> str | None:
    if "removal" not in config:
        return None
    removal, documents = config["removal"], config["windows"]["documents"]
    for kind in ("models", "corpora"):
        names = [entry["name"] for entry in config[kind]]
        unknown = sorted(set(removal.get(kind, [])) - set(names))
        if unknown:
            return f"removal.{kind}: {unknown[0]!r} is none of {', '.join(names)}"
    for split, least in (("score", 1), ("evaluate", 2)):
        if documents[split] < least:
            return (
                f"windows.documents.{split}: {documents[split]} documents, but `removal` needs at least {least}; "
                "raise it, or take `removal` out"
            )
    if removal["scan_documents"] > documents["evaluate"]:
        return (
            f"removal.scan_documents: {removal['scan_documents']} of {documents['evaluate']} documents "
            "(windows.documents.evaluate)"
        )
    return None
