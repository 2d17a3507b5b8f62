"""The Hugging Face Hub: what is taken from it, at which revision, and what its errors mean.

A source of kind ``hub`` has a lock file, config/pins/ROLE-NAME.json, with the commit that its repository is read at
and the sizes and hashes of a model's files. It is written once and checked from then on.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from .errors import UserError
from .files import sha256

T = TypeVar("T")
logger = logging.getLogger(__name__)

BRANCH = "main"
BUSY = (429, 500, 502, 503, 504)
WAITS = (1, 3, 9, 27)
"""Seconds before each new try of what the hub was too busy for."""
# The top level of a repository: folders hold other formats, and consolidated*.safetensors repeat the weights.
MODEL_FILES = ("*.safetensors", "*.json", "tokenizer.model", "*.txt", "*.jinja")
OTHER_FILES = ("*/*", "consolidated*")


def repo_type(role: str) -> str:
    """The hub's word for a "model" or a "corpus"."""
    return "model" if role == "model" else "dataset"


def page(repository: str, repo_type: str) -> str:
    """Where people read about a repository and accept its licence."""
    return f"https://huggingface.co/{'datasets/' if repo_type == 'dataset' else ''}{repository}"


def token() -> str | bool:
    """The environment's HF_TOKEN and nothing else; False if there is none."""
    return os.environ.get("HF_TOKEN") or False


def resolve(source: dict[str, Any], role: str, locked: dict[str, Any] | None) -> dict[str, Any]:
    """The content of the lock file: repository, the branch asked for, commit, and a model's files.

    The commit is the source's ``revision``; without one, that of ``locked``, the lock so far, if it is of the same
    repository and branch; else the branch's newest. Raises UserError if the hub cannot tell.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import filter_repo_objects

    asked = {"repository": source["repository"], "branch": source.get("branch", BRANCH)}
    revision = source.get("revision")
    if revision is None and locked and asked.items() <= locked.items():
        revision = locked["revision"]
    kind, api = repo_type(role), HfApi(token=token())
    with errors({**source, "revision": revision or asked["branch"]}, kind):
        info = patiently(
            lambda: api.repo_info(
                asked["repository"],
                repo_type=kind,
                revision=revision or asked["branch"],
                files_metadata=kind == "model",
            )
        )
    lock = {**asked, "revision": info.sha}
    if kind == "model":
        taken = filter_repo_objects(
            info.siblings or (),
            allow_patterns=list(MODEL_FILES),
            ignore_patterns=list(OTHER_FILES),
            key=lambda file: file.rfilename,
        )
        lock["files"] = {file.rfilename: _facts(file) for file in sorted(taken, key=lambda file: file.rfilename)}
    return lock


def _facts(file: Any) -> dict[str, Any]:
    """Size and hash of a file as the hub lists it: large ones have a SHA-256, others git's hash of their content."""
    known = {"sha256": file.lfs.sha256} if file.lfs else {"git": file.blob_id}
    return {"bytes": file.size, **known}


def verify(folder: Path, pin: Path) -> None:
    """Raise UserError, naming the first file of the lock ``pin`` that ``folder`` lacks or has with other content."""
    for name, facts in json.loads(pin.read_text(encoding="utf-8")).get("files", {}).items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"{name}, which {pin} lists, was not fetched.")
        found = sha256(path) if "sha256" in facts else git_hash(path)
        if found != facts.get("sha256", facts.get("git")):
            raise UserError(f"{name} has the hash {found}, but {pin} has {facts}. Delete that file to pin anew.")


def git_hash(path: Path) -> str:
    """Git's hash of a file's content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def patiently(request: Callable[[], T]) -> T:
    """What ``request`` returns, made anew while the hub is busy: its clients do so for some of their requests only."""
    from huggingface_hub.errors import HTTPError

    for wait in WAITS:
        try:
            return request()
        except HTTPError as error:
            status = next(filter(None, map(_status, _causes(error))), None)
            if status not in BUSY:
                raise
            logger.warning("the hub answered %d; the next try is in %d s", status, wait)
            time.sleep(wait)
    return request()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised for, and so on."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


@contextmanager
def errors(source: dict[str, Any], repo_type: str) -> Iterator[None]:
    """Turn what the hub's clients raise into a UserError that says what to do."""
    from huggingface_hub.errors import HTTPError  # of the HTTP library that this version of the client uses

    try:
        yield
    except UserError:
        raise
    except (HTTPError, OSError, ValueError) as error:
        raise UserError(_advice(error, source, repo_type)) from error


def _advice(error: BaseException, source: dict[str, Any], repo_type: str) -> str:
    """What went wrong and what to do, from the error or, for wrapped ones, the first telling cause."""
    from huggingface_hub import errors as hub_errors

    repository, revision = source["repository"], source.get("revision", BRANCH)
    for cause in _causes(error):
        status = _status(cause)
        if isinstance(cause, hub_errors.RevisionNotFoundError):
            return f"{repository} has no revision {revision}."
        gated = isinstance(cause, hub_errors.GatedRepoError) or "gated dataset" in str(
            cause
        )  # datasets drops the cause
        if gated or status in (401, 403):
            return (
                f"no access to {repository}. Accept its licence at {page(repository, repo_type)} and set the "
                "environment variable HF_TOKEN to a token that may read it; if there is no such page, the name is "
                "wrong."
            )
        if isinstance(cause, hub_errors.RepositoryNotFoundError):
            return f"there is no {repo_type} {repository} on the hub; look it up at {page(repository, repo_type)}."
        if status in BUSY:
            return (
                f"{repository} at {revision} could not be fetched: the hub answered {status} at every try, so it is "
                "busy or down. Run again later."
            )
    if isinstance(error, hub_errors.HfHubHTTPError) or not isinstance(error, (hub_errors.HTTPError, ConnectionError)):
        return f"{repository} at {revision} could not be fetched: {' '.join(str(error).split())}"
    return (
        f"the hub cannot be reached ({type(error).__name__}: {error}). Is there a network? HF_HUB_OFFLINE forbids it."
    )
