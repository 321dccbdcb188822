"""A short reproduction of CT8 that checks the order of the methods."""

import pytest

from personae.api import compare
from personae.curricula.paper_tables import TABLES
from personae.report.paper.claim import Runs
from personae.report.paper.claims import verdicts


@pytest.mark.smoke
def test_the_order_of_the_methods_on_ct8(tmp_path):
    """Two fifths of the paper's steps and three seeds are enough."""
    comparison = compare(
        "ct8", TABLES["ct8"], seeds=3, steps_per_task=40_960, out=tmp_path
    )
    totals = {m: r.total_evaluation.mean() for m, r in comparison.records.items()}
    print({method: round(float(total), 1) for method, total in totals.items()})
    assert totals["mask-blc"] > totals["mask-ri"] > totals["ewc-mh"] > totals["ppo"]
    assert totals["mask-lc"] > totals["ewc-mh"]
    claims = verdicts(Runs(comparison, {}))
    assert claims["no-forgetting"][1].holds
    assert claims["far-above-ppo"][1].holds
    transfer = comparison.per_seed
    blc, ewc = (transfer("forward_transfer", m).mean() for m in ("mask-blc", "ewc-mh"))
    assert blc > 0.3 > ewc
