"""Estimates of memory and time from shapes, what rules ask for, and the plan of a run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import plan
import pytest
import yaml

import makers
from families import tiny_model
from headgeom import estimates, models
from headgeom.errors import UserError
from headgeom.stages import convert_model

ROOT = Path(__file__).resolve().parents[2]
PAPER = plan.load(str(ROOT / "config/paper.yaml"))
# As transformers counts them in models of these shapes.
PARAMETERS = {
    "llama-2-7b": 6_738_415_616, "llama-3-8b": 8_030_261_248, "gemma-7b": 8_537_680_896, "mistral-7b": 7_241_732_096,
}  # fmt: skip


def test_a_config_is_laid_over_the_default_as_snakemake_lays_it(tmp_path):
    """Mappings are merged key by key; what the default says of head removal is not inherited."""
    (tmp_path / "own.yaml").write_text("run: own\nwindows: {length: 300}\nonly: {models: [gemma-3-270m]}\n")
    config = plan.load(str(tmp_path / "own.yaml"))
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    assert config["windows"] == {"length": 300, "documents": default["windows"]["documents"]}
    assert "removal" in default and "removal" not in config


def test_whatever_needs_the_network_runs_where_snakemake_does():
    text = (ROOT / "workflow/rules/resources.smk").read_text()
    rules = dict(re.findall(r"^rule (\w+):\n(.*?)(?=^rule |\Z)", text, re.MULTILINE | re.DOTALL))
    assert {name for name, body in rules.items() if "localrule: True" in body} == {"pin", "fetch_model", "fetch_corpus"}


def test_the_papers_shapes_have_its_models_parameters():
    found = {model["name"]: estimates.from_config(model["shape"]).parameters for model in PAPER["models"]}
    assert found == PARAMETERS


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_model_takes_its_weights_and_some(name):
    shape = estimates.from_config(next(model["shape"] for model in PAPER["models"] if model["name"] == name))
    peak = estimates.peak_memory(shape, "bfloat16", PAPER)
    assert 2 * shape.parameters < peak < 2 * shape.parameters + models.WORKING_BYTES + estimates.LIBRARIES["cuda"]
    once = {**PAPER, "device": "cpu"}
    more = {**once, "extraction": PAPER["extraction"] | {"batch_size": 4}}
    assert estimates.working_memory(shape, "bfloat16", more) > 1.5 * estimates.working_memory(shape, "bfloat16", once)
    assert estimates.peak_memory(shape, "float32", PAPER) > peak + 1.9 * shape.parameters


def test_what_is_not_made_yet_is_named_as_the_input(tmp_path):
    """Snakemake takes such an error for "to be determined"."""
    for function in (estimates.from_checkpoint, estimates.conversion_memory):
        with pytest.raises(FileNotFoundError) as error:
            function(tmp_path / "absent")
        assert error.value.filename == str(tmp_path / "absent")


def test_another_shape_than_the_checkpoints_is_refused(tmp_path):
    facts = convert_model.checked_facts(makers.tiny_checkpoint(tmp_path / "model"))
    shape = {
        "layers": 3, "heads": 4, "key_value_heads": 2, "head_dim": 8, "hidden_size": 32, "intermediate_size": 48,
        "vocabulary": 96,
    }  # fmt: skip
    convert_model.refuse_other_shape({"name": "tiny", "shape": shape}, facts)
    convert_model.refuse_other_shape({"name": "tiny"}, facts)
    for key, name in (("layers", "layers"), ("intermediate_size", "parameters")):
        with pytest.raises(UserError, match=rf"model tiny: its `shape` in the config makes for {name} \d+, but"):
            convert_model.refuse_other_shape({"name": "tiny", "shape": shape | {key: 7}}, facts)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "olmo2"])
def test_the_true_shape_of_a_family_with_biases_or_more_norms_is_accepted(family):
    model = tiny_model(family)
    config = model.config
    facts = {"parameters": sum(p.numel() for p in model.parameters()), **models.architecture(config)}
    shape = {
        "layers": config.num_hidden_layers, "heads": config.num_attention_heads, "hidden_size": config.hidden_size,
        "key_value_heads": config.num_key_value_heads, "head_dim": facts["head_dim"], "vocabulary": config.vocab_size,
        "intermediate_size": config.intermediate_size, "tied_embeddings": config.tie_word_embeddings,
    }  # fmt: skip
    assert estimates.from_config(shape).parameters != facts["parameters"]
    convert_model.refuse_other_shape({"name": family, "shape": shape}, facts)


def test_every_rule_that_is_told_a_device_asks_for_gpus():
    rules = [rule for file in sorted(ROOT.glob("workflow/rules/*.smk")) for rule in file.read_text().split("\nrule ")]
    told = [rule for rule in rules if 'config["device"]' in rule and "input:" in rule]
    assert told and all(re.search(r"\bgpu=", rule) for rule in told)


def test_the_slurm_profile_speaks_of_rules_that_are_there_or_will_be():
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    text = "".join(file.read_text() for file in ROOT.glob("workflow/rules/*.smk"))
    there = set(re.findall(r"^rule (\w+):", text, re.MULTILINE))
    expected = {"head_scores", "removal", "head_scan", "regime_ablation", "bounds"}
    assert (set(profile["set-resources"]) | set(profile["set-threads"])) <= there | expected


def test_the_plan_of_the_papers_run_tells_jobs_hours_memory_and_licences():
    done = subprocess.run(
        [sys.executable, "tools/plan.py", "config/paper.yaml"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^extract +32$", done.stdout, re.MULTILINE)
    rows = re.findall(r"^(\S+) +[\d.]+ B +[\d.]+ +[\d.]+ +([\d.]+) GB", done.stdout, re.MULTILINE)
    assert {name: float(size) > 13 for name, size in rows} == dict.fromkeys(PARAMETERS, True)
    (header,) = re.findall(r"^head removal, hours +(.+)$", done.stdout, re.MULTILINE)
    assert header.split() == ["head_scores", "removal", "regime_ablation", "head_scan", "all"]
    hours = dict(re.findall(rf"^({'|'.join(PARAMETERS)}|all)((?: +\d+\.\d\d){{5}})$", done.stdout, re.MULTILINE))
    assert hours.keys() == {*PARAMETERS, "all"}
    assert all(float(number) > 0 for row in hours.values() for number in row.split())
    assert done.stdout.count("https://huggingface.co/") == 3 and "Assumptions" in done.stdout


def test_the_plan_of_head_removal_adds_up():
    rows = [line.split()[-5:] for line in plan.removal_hours(PAPER).splitlines()[1:]]
    numbers = [[float(number) for number in row] for row in rows]
    assert len(numbers) == 5
    assert [sum(row[:-1]) for row in numbers] == pytest.approx([row[-1] for row in numbers], abs=0.03)
    assert [sum(column) for column in zip(*numbers[:-1], strict=True)] == pytest.approx(numbers[-1], abs=0.03)
    assert plan.removal_hours({**PAPER, "removal": None}) == ""
    unknown = [{"name": "llama-2-7b"}]
    assert "its size is not known" in plan.removal_hours({**PAPER, "models": unknown})


def test_only_the_random_order_takes_a_pass_for_each_seed():
    shape = estimates.from_config(PAPER["models"][0]["shape"])
    passes = {score: estimates.removal_passes("removal", shape, PAPER, score) for score in ("random", "magnitude")}
    assert passes == {"random": (1 + 5 * 5) * 64, "magnitude": (1 + 5) * 64}
    assert estimates.removal_passes("head_scan", shape, PAPER) == (1 + 32 * 32 / 8) * 4
    assert estimates.removal_passes("regime_ablation", shape, PAPER) == (1 + 6 * 5) * 64


def test_every_rule_that_loads_a_model_asks_for_memory_by_its_size():
    rules = [rule for file in sorted(ROOT.glob("workflow/rules/*.smk")) for rule in file.read_text().split("\nrule ")]
    loading = [rule for rule in rules if 'checkpoint="resources' in rule and not rule.startswith("tokenize:")]
    assert [rule.split(":")[0] for rule in loading] == [
        "extract", "head_scores", "removal", "regime_ablation", "head_scan", "export",
    ]  # fmt: skip
    assert all("mem_mb=lambda wildcards, input, attempt: " in rule for rule in loading)


def test_counts_ask_for_a_quarter_more_than_they_take():
    """Of 80 documents of SmolLM2-135M, 701 MiB at 766 bytes a document, layer and head on disk."""
    operations = 80 * 30 * 9
    asked = estimates.counts_memory(operations * 766 / 1e6)
    assert 1.25 * 701 * 2**20 / 1e6 < asked < 2 * 701 * 2**20 / 1e6


def test_a_plan_with_a_measured_time_adds_up():
    text = plan.plan(PAPER, seconds=3.6)
    hours = [float(row) for row in re.findall(r"B +3\.60 +([\d.]+)", text)]
    assert hours == pytest.approx([512 / 1000] * 4, abs=0.005)
    assert float(re.search(r"^all +([\d.]+)", text, re.MULTILINE)[1]) == pytest.approx(2.048, abs=0.005)


def test_a_plan_of_no_config_says_so(tmp_path):
    shutil.copy(ROOT / "config/micro.yaml", tmp_path / "bad.yaml")
    (tmp_path / "bad.yaml").write_text((tmp_path / "bad.yaml").read_text() + "devise: cuda\n")
    (tmp_path / "nameless.yaml").write_text("device: cpu\n")
    (tmp_path / "list.yaml").write_text("- run\n")
    (tmp_path / "broken.yaml").write_text("run: mine\nmodels: [\n")
    expected = {
        "none.yaml": "there is no config", "bad.yaml": "unknown key 'devise'", "nameless.yaml": "lacks the key 'run'",
        "list.yaml": "holds no keys", "broken.yaml": "is not YAML",
    }  # fmt: skip
    for path, said in ((tmp_path / name, said) for name, said in expected.items()):
        done = subprocess.run([sys.executable, "tools/plan.py", path], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 1 and said in done.stderr and str(path) in done.stderr
        assert "Traceback" not in done.stderr
