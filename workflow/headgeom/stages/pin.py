"""Pin a hub source: find its commit and write it to a lock file. Needs the network, but no torch."""

import argparse
import json
import logging
from pathlib import Path

from headgeom import hub
from headgeom.errors import UserError
from headgeom.files import replacing

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The stage's own options; settings: name, role, source."""
    parser.add_argument("--output", type=Path, required=True, help="lock file; a revision that stands in it is kept")


def run(options: argparse.Namespace) -> None:
    """Write the lock file. Raises UserError, naming the entry, if the hub cannot be asked or lacks the revision."""
    settings = options.settings
    locked = None
    if options.output.is_file():
        try:
            locked = json.loads(options.output.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{options.output} is not JSON ({error}); delete it to pin anew.") from error
    try:
        lock = hub.resolve(settings["source"], settings["role"], locked)
    except UserError as error:
        raise UserError(f"{settings['role']} {settings['name']}: {error}") from error
    with replacing(options.output) as temporary:
        temporary.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    logger.info("%s is pinned at %s", lock["repository"], lock["revision"])
