"""A shortened reproduction of CT8: the methods come out in the paper's order."""

import pytest

from personae.api import compare
from personae.curricula.paper_tables import TABLES
from personae.report.paper.claims import Runs, judged


@pytest.mark.smoke
def test_the_order_of_the_methods_on_ct8(tmp_path):
    """Two fifths of the paper's steps, three seeds."""
    comparison = compare(
        "ct8", TABLES["ct8"], seeds=3, steps_per_task=40_960, out=tmp_path
    )
    totals = {m: r.total_evaluation.mean() for m, r in comparison.records.items()}
    print({method: round(float(total), 1) for method, total in totals.items()})
    assert totals["mask-blc"] > totals["mask-ri"] > totals["ewc-mh"] > totals["ppo"]
    assert totals["mask-lc"] > totals["ewc-mh"]
    verdicts = judged(Runs(comparison, {}))
    assert verdicts["no-forgetting"][1].holds
    assert verdicts["far-above-ppo"][1].holds
    transfer = comparison.per_seed
    blc, ewc = (transfer("forward_transfer", m).mean() for m in ("mask-blc", "ewc-mh"))
    assert blc > 0.3 > ewc
