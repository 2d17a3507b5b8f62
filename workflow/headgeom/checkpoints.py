"""Which files of a checkpoint may be read: safetensors, never pickles."""

from .errors import UserError

PICKLES = (".bin", ".ckpt", ".pt", ".pth")
HOW_TO_CONVERT = (
    "Pickled weights can run code when they are read, so only safetensors are. Convert them once, where you trust "
    "them, with transformers (`AutoModelForCausalLM.from_pretrained(...).save_pretrained(FOLDER)` and the same for "
    "the tokenizer), then name FOLDER as a source of kind `local`."
)


def refuse_without_safetensors(names: list[str], origin: str) -> None:
    """Raise UserError if the file names hold no safetensors, saying what to do about pickles."""
    if not any(name.endswith(".safetensors") for name in names):
        pickles = ", ".join(name for name in names if name.endswith(PICKLES))
        found = f"only {pickles}. {HOW_TO_CONVERT}" if pickles else f"but: {', '.join(names) or 'nothing'}."
        raise UserError(f"{origin} holds no safetensors weights, {found}")
