"""What the tools need to know of a run's config."""

import sys
from pathlib import Path

import yaml


def run_name(config: str) -> str:
    """The run that a config names, or an exit with what is wrong."""
    path = Path(config)
    if not path.is_file():
        raise SystemExit(f"there is no config {config}; name one, as in CONFIG=config/config.yaml")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("run"), str):
        raise SystemExit(f"{config}: lacks the key 'run'; name the run, as in `run: mine`")
    return content["run"]


if __name__ == "__main__":
    print(run_name(sys.argv[1]))
