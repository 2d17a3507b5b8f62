"""The README's config of a model and a corpus of one's own, run as it stands there on tiny ones of another family."""

import re

import pandas as pd
import pytest
import yaml

import makers


@pytest.mark.parametrize("family", ["qwen2", "olmo2"])
def test_a_model_is_added_in_five_lines_of_config(fresh, tmp_path, family):
    project = fresh.copy(tmp_path / "project")
    readme = (project.root / "README.md").read_text()
    block = next(text for text in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "config/mine.yaml" in text)
    config = yaml.safe_load(block)
    assert len(block.split("corpora:")[0].splitlines()) <= 5
    (model,), (corpus,) = config["models"], config["corpora"]
    makers.tiny_checkpoint((project.root / model["source"]["path"]).resolve(), family)
    makers.tiny_rows(project.root / corpus["source"]["path"])
    # What the README's config inherits from the default, made as small as the model.
    small = yaml.safe_load((project.root / "config/micro.yaml").read_text())
    inherited = {key: small[key] for key in ("windows", "extraction", "statistics")}
    (project.root / "config/mine.yaml").write_text(block + yaml.safe_dump(inherited))
    target = "results/mine/tables/models.csv"
    project.snakemake(target, config="config/mine.yaml")
    (row,) = pd.read_csv(project.root / target).to_dict("records")
    assert (row["model"], row["architecture"].lower()) == (model["name"], f"{family}forcausallm")
