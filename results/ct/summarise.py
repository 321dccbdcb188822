"""Writes README.md, data.json and the figures here from run directories.

python results/ct/summarise.py RUNS, where RUNS holds for each measured group a folder
`GROUP/CURRICULUM-METHOD`, such as `gpu-5/ct8-mask-lc`.
"""

import json
import sys
from pathlib import Path

from personae.metrics import mean_interval
from personae.report import lifelong_curves, published, read_record, save_figure

HERE = Path(__file__).parent
METHODS = ("mask-ri", "mask-lc", "mask-blc")
PUBLISHED = published()["tables"]
CURRICULA = ("ct8", "ct12", "ct8-md")
GROUPS = json.loads((HERE / "groups.json").read_text())


def thousands(steps):
    return " | ".join("fail" if s is None else str(round(s / 1000)) for s in steps)


def table(curriculum, records):
    lines = [
        "| method | total evaluation | published | agents with all tasks learned |"
    ]
    lines += ["| --- | --- | --- | --- |"]
    for method, record in records.items():
        published = PUBLISHED[curriculum][method]["total_evaluation"]
        best = record.targets.sum()
        whole = int((record.evaluations[:, -1].sum(-1) >= best).sum())
        lines.append(
            f"| {method} | {mean_interval(record.total_evaluation)} "
            f"| {published['mean']:.2f} ± {published['ci95']:.2f} "
            f"| {whole} of {len(record.seeds)} |"
        )
    tasks = next(iter(records.values())).tasks
    lines += ["", "Thousands of steps to 75 % of the optimal return, per task:", ""]
    lines += [f"| | {' | '.join(tasks)} |", "| --- " * (len(tasks) + 1) + "|"]
    for method, record in records.items():
        steps = PUBLISHED[curriculum][method]["steps_to_target_per_task"]
        lines.append(f"| {method} | {thousands(record.steps_to_target())} |")
        lines.append(f"| *published* | {thousands(steps)} |")
    return lines


def summarise(runs):
    text, data = [(HERE / "introduction.md").read_text()], {}
    for group, heading in GROUPS.items():
        text += [f"## {heading}", ""]
        for curriculum in CURRICULA:
            paths = {m: runs / group / f"{curriculum}-{m}" for m in METHODS}
            records = {m: read_record(p) for m, p in paths.items() if p.exists()}
            if not records:
                continue
            first = next(iter(records.values()))
            text += [f"### {curriculum} (ideal {first.ideal_total:g})", ""]
            text += [*table(curriculum, records), ""]
            for method, record in records.items():
                data[f"{group}/{curriculum}-{method}"] = {
                    "total_evaluation": record.total_evaluation.tolist(),
                    "steps_to_75_percent": record.steps_to_target(),
                    **{k: record.run[k] for k in ("seconds", "commit", "versions")},
                    "device": record.run["device"]["kind"],
                }
            figure = lifelong_curves(list(records.values()))
            picture = save_figure(figure, HERE / f"{curriculum}-{group}.png")
            text += [f"![Lifelong evaluation]({picture.name})", ""]
    (HERE / "README.md").write_text("\n".join(text))
    (HERE / "data.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    summarise(Path(sys.argv[1]))
