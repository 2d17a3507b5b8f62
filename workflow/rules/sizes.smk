# What jobs that hold a model ask for: it grows with the model and with each further attempt.
from headgeom import estimates


def gpus(model):
    """GPUs of a job that runs the model."""
    return MODELS[model]["gpus"] if config["device"] == "cuda" else 0


def stated_shape(model):
    """The shape that the config states, for the conversion to check; nothing where it states none."""
    return {"shape": MODELS[model]["shape"]} if "shape" in MODELS[model] else {}


def shape(model, checkpoint):
    """The model's shape, from the config or, where that says none, from the converted checkpoint."""
    stated = MODELS[model].get("shape")
    return estimates.from_config(stated) if stated else estimates.from_checkpoint(checkpoint)


def extraction_memory(model, checkpoint, attempt):
    """Memory in MB of a shard's job, on the host."""
    return attempt * estimates.host_memory(shape(model, checkpoint), MODELS[model]["dtype"], config)


def extraction_time(model, checkpoint, attempt):
    """Minutes of a shard's job."""
    return attempt * estimates.shard_minutes(shape(model, checkpoint), config)


def removal_memory(model, checkpoint, attempt):
    """Memory in MB of a job that evaluates losses, on the host, where a CPU has the weights once more, packed."""
    return attempt * estimates.removal_memory(shape(model, checkpoint), MODELS[model]["dtype"], config)


def removal_time(rule, wildcards, checkpoint, attempt):
    """Minutes of a job of head removal."""
    size = shape(wildcards.model, checkpoint)
    passes = estimates.removal_passes(rule, size, config, wildcards.get("score"))
    return attempt * estimates.passes_minutes(size, config, passes)


def conversion_memory(source, attempt):
    """Memory in MB of a job that reads a model from a folder and writes it to another."""
    return attempt * estimates.conversion_memory(source)


def bounds_memory(measured, attempt):
    """Memory in MB of a job that holds all counts of a pair."""
    return attempt * estimates.counts_memory(measured.size_mb)
