"""What the tools need to know of a run's config."""

import sys
from pathlib import Path
from typing import Any

import yaml


def read(config: str | Path) -> dict[str, Any]:
    """A config file's keys, or an exit with what is wrong."""
    if not Path(config).is_file():
        raise SystemExit(f"there is no config {config}; name one, as in CONFIG=config/config.yaml")
    try:
        content = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SystemExit(f"{config} is not YAML in UTF-8: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise SystemExit(f"{config}: holds no keys; write `run: mine` and the keys that you change")
    return content


def run_name(config: str) -> str:
    """The run that a config names, or an exit with what is wrong."""
    content = read(config)
    if not isinstance(content.get("run"), str):
        raise SystemExit(f"{config}: lacks the key 'run'; name the run, as in `run: mine`")
    return content["run"]


if __name__ == "__main__":
    print(run_name(sys.argv[1]))
