"""Gated repositories: before anything is fetched, say whose licences must be accepted and how the token is given.

Standard library alone, for this runs beside Snakemake, outside of every environment.
"""

import os
import urllib.error
import urllib.request
from typing import Any

from . import hub
from .errors import UserError


def require_access(entries: dict[str, list[dict[str, Any]]]) -> str | None:
    """What to tell about the gated ones among ``entries``, lists of config entries by role; None if there are none.

    Raises UserError, naming all that are refused, without a token, or with one that the hub refuses.
    """
    gated = [(role, entry) for role, listed in entries.items() for entry in listed if entry["source"].get("gated")]
    if not gated:
        return None
    token = hub.token()
    refused = [(role, entry) for role, entry in gated if not token or _refused(role, entry, str(token))]
    pages = "".join(
        f"\n  {entry['name']}: {_page(role, entry)} ({entry['licence']})" for role, entry in refused or gated
    )
    if refused:
        why = "your token may not read" if token else "no token is set, and it takes one to read"
        raise UserError(
            f"{why} these gated repositories. Accept their licences at{pages}\nand set the environment variable "
            "HF_TOKEN to a token that may read them (export HF_TOKEN=...). To leave one out, name the others: "
            "--config 'only={models: [...]}'."
        )
    return f"Fetching gated repositories with HF_TOKEN; by using them you accept their licences:{pages}"


def _page(role: str, entry: dict[str, Any]) -> str:
    return hub.page(entry["source"]["repository"], hub.repo_type(role))


def _refused(role: str, entry: dict[str, Any], token: str) -> bool:
    """Whether the hub refuses the token; if it cannot be asked, the stage that fetches will say why."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    address = f"{endpoint}/api/{hub.repo_type(role)}s/{entry['source']['repository']}/auth-check"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return False
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)
    except OSError:
        return False
