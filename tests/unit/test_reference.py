"""The README's result table comes from results/reference."""

import pandas as pd
import reference


def test_the_readme_agrees_with_the_reference_results():
    assert reference.main(["--check"]) == 0


def test_the_table_has_the_numbers_of_the_tables():
    folder = reference.ROOT / "results/reference"
    table = reference.result_table(folder)
    ratio = pd.read_csv(folder / "sink_geometry.csv").query("quantity == 'norm_ratio'")
    assert len(ratio) == 4
    for row in ratio.itertuples():
        assert f"{row.mean:.2f} [{row.low:.2f}, {row.high:.2f}]" in table


def test_a_changed_number_is_seen(tmp_path):
    folder = reference.ROOT / "results/reference"
    for name in reference.TABLES:
        frame = pd.read_csv(folder / f"{name}.csv")
        if name == "sink_geometry":
            frame["mean"] += 1
        if name == "tightness":
            frame["ratio"] /= 2
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    assert reference.result_table(tmp_path) != reference.result_table(folder)
    assert reference.certificate_table(tmp_path) != reference.certificate_table(folder)
