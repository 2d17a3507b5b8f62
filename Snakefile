import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/workflow")

from headgeom.config import own_removal, validated
from headgeom.errors import UserError

import yaml
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


# A run's results are told apart by its name alone, so a config of one's own may not inherit the default's.
own = workflow.overwrite_configfiles
if own and not any("run" in (yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}) for path in own):
    raise WorkflowError(f"{', '.join(map(str, own))}: lacks the key 'run'; name the run, as in `run: mine`")
if own:
    config = own_removal(config, workflow.config_settings.overwrite_config)

# An unpacked bundle (`make bundle`) has the measurement, and not what was measured.
BUNDLED = Path(f"results/{config.get('run')}/bundle.json").is_file()

try:
    origin = [*map(str, workflow.configfiles), *(["--config"] if workflow.config_settings.config else [])]
    config = validated(config, ", ".join(origin), sources=not BUNDLED)
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
    tables,
    removal_tables,
    claims,
    paper,
    manifest,


include: "workflow/rules/common.smk"
include: "workflow/rules/removal_files.smk"
include: "workflow/rules/captions.smk"
include: "workflow/rules/sizes.smk"


if not BUNDLED:

    include: "workflow/rules/resources.smk"
    include: "workflow/rules/tokens.smk"
    include: "workflow/rules/extract.smk"
    include: "workflow/rules/removal.smk"


include: "workflow/rules/metrics.smk"
include: "workflow/rules/taxonomy.smk"
include: "workflow/rules/bounds.smk"
include: "workflow/rules/removal_tables.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/paper.smk"
include: "workflow/rules/manifest.smk"


rule all:
    input:
        tables(ALL_TABLES),
        figures(),
        f"results/{RUN}/claims.json",
        f"paper/{RUN}/replication.pdf",
        f"results/{RUN}/manifest.json",


onstart:
    require_writable()
    require_access(workflow.dag.needrun_jobs())
