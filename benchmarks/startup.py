"""Start-up times, each in fresh processes: `python benchmarks/startup.py --help` lists the options.

What is beyond torch is the difference of two medians: of importing all that stage `extract` imports, and of importing
torch alone. The first process, which reads files from the disk, is not counted.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = {
    "torch": "import torch",
    "stage extract": "import headgeom.stages.extract",
    "stage metrics": "import headgeom.stages.metrics",
    "model": "from headgeom import models; import torch; start = clock(); models.load_model({checkpoint!r})",
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--checkpoint", type=Path, nargs="+", default=sorted((ROOT / "resources/models").glob("*/checkpoint"))
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| what | wall s | CPU s |")
    print("| --- | --- | --- |")
    for name, code in CODE.items():
        for checkpoint in options.checkpoint if name == "model" else [None]:
            label = f"loading {checkpoint.parent.name}" if checkpoint else f"importing {name}"
            runs = [timed(code.format(checkpoint=str(checkpoint))) for _ in range(options.rounds + 1)][1:]
            wall, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
            print(f"| {label} | {wall:.2f} | {cpu:.2f} |", flush=True)


def timed(code: str) -> tuple[float, float]:
    """Wall and CPU seconds of the code after the last `start = clock()`, in a process of its own."""
    script = (
        "import time, sys\n"
        f"sys.path.insert(0, {str(ROOT / 'workflow')!r})\n"
        "clock = lambda: (time.perf_counter(), time.process_time())\n"
        f"start = clock()\n{code}\n"
        "print(*(b - a for a, b in zip(start, clock())))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    wall, cpu = done.stdout.split()[-2:]
    return float(wall), float(cpu)


if __name__ == "__main__":
    main()
