"""Launcher of the workflow's stages: ``python workflow/run.py STAGE --help``.

Its folder is on ``sys.path``, so nothing needs to be installed. Exit code 1 and one line on stderr mean bad
input; an unexpected error leaves its traceback in the log file.
"""

import argparse
import importlib
import json
import logging
import os
import sys
from pathlib import Path

STAGES = sorted(p.stem for p in (Path(__file__).parent / "headgeom" / "stages").glob("[a-z]*.py"))


def parser_for(stage: str) -> tuple[argparse.ArgumentParser, object]:
    """The stage's command line and its module."""
    module = importlib.import_module(f"headgeom.stages.{stage}")
    parser = argparse.ArgumentParser(prog=f"run.py {stage}", description=module.__doc__)
    parser.add_argument("--settings", type=json.loads, default={}, metavar="JSON", help="slice of the run's config")
    parser.add_argument("--log", type=Path, metavar="FILE", help="log file, written anew")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    module.add_arguments(parser)
    return parser, module


def missing_input(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str | None:
    """The first option that names a file or folder to read which is not there, with its value."""
    for action in parser._actions:
        given = getattr(options, action.dest, None)
        if action.type is Path and given and action.dest not in ("output", "log"):
            for path in given if isinstance(given, list) else [given]:
                if not path.exists():
                    return f"{action.option_strings[0]} {path}"
    return None


def configure_logging(path: Path | None) -> None:
    """Log to ``path`` in full and to stderr in short."""
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(path, mode="w"))
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", handlers=handlers, force=True)
    for name in ("httpx", "httpx2", "matplotlib", "papermill", "fontTools"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main(arguments: list[str]) -> int:
    """Run one stage; return the exit code."""
    if not arguments or arguments[0] not in STAGES:
        print(f"usage: run.py STAGE [options]\nstages: {', '.join(STAGES)}", file=sys.stderr)
        return 0 if arguments in (["--help"], ["-h"]) else 2
    stage, rest = arguments[0], arguments[1:]
    if stage not in ("fetch", "pin"):
        os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    parser, module = parser_for(stage)
    options = parser.parse_args(rest)
    configure_logging(options.log)
    from headgeom.errors import UserError

    logger = logging.getLogger(stage)
    try:
        missing = missing_input(parser, options)
        if missing:
            raise UserError(f"{missing}: there is no such file or folder; make it first, or correct the path.")
        module.run(options)
    except UserError as error:
        logger.error("%s", error)
        return 1
    except FileNotFoundError as error:
        logger.error("%s is not there; make anew the input that it belongs to.", error.filename)
        return 1
    except Exception:
        logger.exception("unexpected error in stage %s", stage)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
