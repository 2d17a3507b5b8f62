import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/workflow")

from headgeom.config import validated
from headgeom.errors import UserError

import yaml
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


# A run's results are told apart by its name alone, so a config of one's own may not inherit the default's.
own = workflow.overwrite_configfiles
if own and not any("run" in (yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}) for path in own):
    raise WorkflowError(f"{', '.join(map(str, own))}: lacks the key 'run'; name the run, as in `run: mine`")

try:
    config = validated(config, ", ".join(map(str, workflow.configfiles)))
except UserError as error:
    raise WorkflowError(str(error)) from None

RUN = config["run"]
MODELS = {model["name"]: model for model in config["models"]}
CORPORA = {corpus["name"]: corpus for corpus in config["corpora"]}
ENTRIES = {"model": MODELS, "corpus": CORPORA}


wildcard_constraints:
    model="[^/]+",
    corpus="[^/]+",


localrules:
    all,
    pin,
    pins,
    fetch_model,
    fetch_corpus,
    tables,


include: "workflow/rules/common.smk"
include: "workflow/rules/sizes.smk"
include: "workflow/rules/resources.smk"
include: "workflow/rules/tokens.smk"
include: "workflow/rules/extract.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/taxonomy.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"


rule all:
    input:
        tables(),
        figures(),


onstart:
    require_access(workflow.dag.needrun_jobs())
