"""Copy what is worth keeping of `personae reproduce --out RUNS` to this folder.

    python results/gather.py RUNS 25-seeds

Tables in every form, figures with fewer colours, and the run.json of each run go to
results/TABLE/25-seeds.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
REUSE = {"ct8": "reuse-4.png", "ct12": "reuse-12.png", "mg10": "reuse-7.png"}
"""What the paper shows of the figures of which there is one per task."""
COLOURS = 128


def gather(source: Path, target: Path) -> None:
    """Copy one table's files."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "tables", target / "tables")
    shutil.copy(source / "comparison.md", target / "comparison.md")
    for run in sorted(source.glob("*/run.json")):
        (target / "runs").mkdir(exist_ok=True)
        shutil.copy(run, target / "runs" / f"{run.parent.name}.json")
    for path in sorted(source.glob("figures/*.png")):
        if "reuse" not in path.name or path.name == REUSE.get(source.name):
            (target / "figures").mkdir(exist_ok=True)
            few = Image.open(path).convert("RGB").quantize(COLOURS)
            few.save(target / "figures" / path.name, optimize=True)


def main() -> None:
    """Copy all tables that are there."""
    runs, name = Path(sys.argv[1]), sys.argv[2]
    for source in sorted(path.parent for path in runs.glob("*/comparison.md")):
        gather(source, HERE / source.name / name)
        print(HERE / source.name / name)


if __name__ == "__main__":
    main()
