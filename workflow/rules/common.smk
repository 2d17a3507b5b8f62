# What every rule needs: how to call a stage, and the slice of the config that it depends on.
import json
import shlex
import sys

import closure
from snakemake.settings.types import DeploymentMethod

# Inside a conda environment `python` is the environment's; otherwise stages run in Snakemake's own.
CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
STAGE = f"{'python' if CONDA else shlex.quote(sys.executable)} workflow/run.py"


def settings(**values):
    """A stage's settings as JSON; Snakemake re-runs the stage when they change."""
    return json.dumps(values, sort_keys=True)
