"""Time and memory of a finished run by rule, from the benchmark files that Snakemake wrote: `--help` lists options.

Seconds are summed over a rule's jobs, which may have run side by side; memory is that of the largest job.
"""

import argparse
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Print a row for each rule, the slowest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="laptop", help="name of the run")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder that holds results/ and resources/")
    options = parser.parse_args()
    folders = [options.root / "results" / options.run / "benchmarks", options.root / "resources/benchmarks"]
    jobs = pd.concat([job_times(folder) for folder in folders])
    if jobs.empty:
        raise SystemExit(f"there are no benchmark files in {' and '.join(map(str, folders))}; has the run finished?")
    rules = jobs.groupby("rule").agg(
        jobs=("s", "size"), seconds=("s", "sum"), longest=("s", "max"), cpu=("cpu_time", "sum"), peak=("max_rss", "max")
    )
    total = rules["seconds"].sum()
    print("| rule | jobs | seconds | share | longest job, s | CPU seconds | peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for rule in rules.sort_values("seconds", ascending=False).itertuples():
        share = f"{100 * rule.seconds / total:.0f} %"
        cells = f"{rule.seconds:.0f} | {share} | {rule.longest:.0f} | {rule.cpu:.0f} | {rule.peak:.0f}"
        print(f"| {rule.Index} | {rule.jobs} | {cells} |")
    print(f"| all | {len(jobs)} | {total:.0f} | | | {rules['cpu'].sum():.0f} | {rules['peak'].max():.0f} |")


def job_times(folder: Path) -> pd.DataFrame:
    """A row for each job; a rule's files lie in a folder of its name."""
    columns = ["s", "max_rss", "cpu_time"]
    rows = []
    for path in sorted(folder.rglob("*.tsv")):
        # Snakemake writes "-" or NA where a job ended before it was looked at.
        found = pd.read_csv(path, sep="\t", na_values=["-"])[columns].astype(float)
        rows.append(found.assign(rule=path.relative_to(folder).parts[0].removesuffix(".tsv")))
    return pd.concat(rows) if rows else pd.DataFrame(columns=[*columns, "rule"])


if __name__ == "__main__":
    main()
