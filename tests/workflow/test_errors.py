"""Bad input: one clear message, exit code not 0, before expensive work."""

import pytest

HASH = "0" * 64

CONFIG = [
    ({"extractoin": {}}, "unknown key 'extractoin'"),
    ({"windows.lenght": 5}, "unknown key 'lenght' in windows"),
    ({"models.0.source.path": None}, "models[0].source lacks the key 'path'"),
    ({"models.0.source": {"kind": "torrent"}}, "models[0].source.kind: 'torrent' is not one of"),
    ({"run": "a b"}, "run: 'a b' does not match"),
    ({"windows.length": "long"}, "windows.length: 'long' is not of type 'integer'"),
    ({"extraction.sizes": [1, 24]}, "extraction.sizes: 24 is too large for windows of 24 tokens (windows.length)"),
    ({"extraction.sizes": [1, 23]}, "extraction.sizes: 23 is too large"),
    ({"extraction.sizes": [4, 2]}, "extraction.sizes: [4, 2] is not ascending"),
    ({"extraction.queries": 13}, "extraction.queries: 13 positions"),
    ({"extraction.shards": 7}, "extraction.shards: 7 shards for 6 documents"),
    ({"extraction.pair_documents": 7}, "extraction.pair_documents: 7 of 6 documents (windows.documents.geometry)"),
    ({"models.0.source.path": "resources/none"}, "models[0].source.path: there is no 'resources/none'"),
    ({"removal.retentions": [1.0]}, "removal.retentions[0]: 1.0 is greater than or equal to the maximum of 1"),
    ({"removal.scores": ["magnitud"]}, "removal.scores[0]: 'magnitud' is not one of"),
    ({"removal.models": ["tinny"]}, "removal.models: 'tinny' is none of tiny"),
    ({"removal.corpora": ["word"]}, "removal.corpora: 'word' is none of words"),
    ({"windows.documents.score": 0}, "windows.documents.score: 0 documents, but `removal` needs at least 1"),
    ({"windows.documents.evaluate": 1}, "windows.documents.evaluate: 1 documents, but `removal` needs at least 2"),
    ({"removal.scan_documents": 3}, "removal.scan_documents: 3 of 2 documents (windows.documents.evaluate)"),
    ({"only": {"models": ["tinny"]}}, "only.models: 'tinny' is none of tiny"),
]


@pytest.mark.parametrize(("changes", "message"), CONFIG, ids=[next(iter(changes)) for changes, _ in CONFIG])
def test_a_bad_config_is_one_message_that_names_file_and_key(fresh, tmp_path, changes, message):
    project = fresh.copy(tmp_path / "project")
    result = project.snakemake(config=project.configured(changes), check=False)
    assert result.code != 0
    line = next(line for line in result.text.splitlines() if message in line)
    assert "config/changed.yaml" in line
    assert "Traceback" not in result.text
    assert not (project.root / "results/micro").exists()


def test_two_entries_of_one_name_are_refused(fresh, tmp_path):
    project = fresh.copy(tmp_path / "project")
    entry = {"name": "tiny", "source": {"kind": "local", "path": "resources/micro/model"}}
    result = project.snakemake(config=project.configured({"models": [entry, entry]}), check=False)
    assert result.code != 0
    assert "models: the name 'tiny' is used 2 times" in result.text


STAGES = [
    ({"models.0.source.sha256": HASH}, "fetch_model", HASH),
    ({"corpora.0.source.sha256": HASH}, "fetch_corpus", HASH),
    (
        {"windows.documents.geometry": 50},
        "tokenize",
        "corpus 'words' has 16 documents of at least 23 tokens of 'tiny', but windows.documents asks for 54",
    ),
    ({"windows.length": 200}, "tokenize", "windows.length is 200, but model 'tiny' has 128 positions"),
]


@pytest.mark.parametrize(("changes", "rule", "message"), STAGES, ids=[f"{s[1]}-{next(iter(s[0]))}" for s in STAGES])
def test_what_only_a_stage_can_see_stops_the_run_before_extraction(fresh, tmp_path, changes, rule, message):
    project = fresh.copy(tmp_path / "project")
    result = project.snakemake(config=project.configured(changes), check=False)
    assert result.code != 0
    assert any(message in line and line.startswith("ERROR") for line in result.text.splitlines()), result.text
    assert f"Error in rule {rule}:" in result.text
    assert "Traceback" not in result.text
    assert not list(project.root.glob("results/micro/geometry/**/*.nc"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": "reference"}, "run: 'reference' is the name of the committed results"),
        ({"run": "x\n"}, "run: 'x\\n' does not match"),
        ({"windows.length": 24.0}, "windows.length: 24.0 is not of type 'integer'"),
        ({"extraction.sizes": [1, 2.0]}, "extraction.sizes[1]: 2.0 is not of type 'integer'"),
        ({"statistics.confidence": float("nan")}, "statistics.confidence: nan is not of type 'number'"),
    ],
)
def test_values_that_only_look_right_are_refused(fresh, tmp_path, changes, message):
    project = fresh.copy(tmp_path / "project")
    result = project.snakemake("--dry-run", config=project.configured(changes), check=False)
    assert result.code != 0
    assert message in result.text
    assert "Traceback" not in result.text


def test_a_config_of_ones_own_names_its_run(fresh, tmp_path):
    """Else its results would go among those of the laptop run."""
    project = fresh.copy(tmp_path / "project")
    result = project.snakemake("--dry-run", config=project.configured({"run": None}), check=False)
    assert result.code != 0
    assert "config/changed.yaml: lacks the key 'run'" in result.text
