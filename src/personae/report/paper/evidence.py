"""The verdicts on the paper's claims: each function tests one claim on runs.

A claim holds if our intervals (95 %, over seeds) leave no doubt, fails if they leave no
doubt that it does not, and is open otherwise.
"""

import numpy as np
from jaxtyping import Float

from personae.analysis import hamming_distances, l2_distances
from personae.metrics import bootstrap_difference, bootstrap_mean, welch_test
from personae.report.data.collection import MASK_METHODS, REFERENCE
from personae.report.data.comparison import Comparison
from personae.report.data.measures import PerSeed
from personae.report.data.record import Record
from personae.report.paper.claim import Runs, Verdict, verdict_of_differences
from personae.report.paper.published import published

LEARNED = 0.75
"""Share of its target from which a task counts as learned."""
FIRST_LAYER = "trunk.0"
"""The layer whose masks the paper compares."""
NEARLY_UNIFORM = 2.0
"""Factor by which a coefficient may differ from an equal share."""
DISSIMILAR = 0.4
"""Share of bits that differ; between random masks it is one half."""
FAR_ABOVE = 2.0
"""Factor above PPO's total that counts as far above it."""
SIGNIFICANT = 0.05
"""Largest p-value of a significant difference."""


def masks_do_not_forget(runs: Runs) -> Verdict:
    """Test that evaluations of a task never fall after its training."""
    losses = {method: _largest_loss(runs.record(method)) for method in MASK_METHODS}
    evidence = ", ".join(f"{method} {loss:g}" for method, loss in losses.items())
    # Masks are exact: a loss needs no interval, and a single one refutes the claim.
    return Verdict(not any(losses.values()), f"largest loss: {evidence}")


def _largest_loss(record: Record) -> float:
    """Return the most that any agent lost of any task after its training."""
    losses = [0.0]
    for task in np.unique(record.evaluation_task):
        end = np.flatnonzero(record.evaluation_task == task)[-1]
        after = record.evaluations[:, end:, task]
        losses.append(float((after[:, :1] - after).max()))
    return max(losses)


def far_above_ppo(runs: Runs) -> Verdict:
    """Test that the totals of all masks are above twice PPO's total."""
    ppo = FAR_ABOVE * runs.record("ppo").total_evaluation
    totals = {m: runs.record(m).total_evaluation for m in MASK_METHODS}
    return verdict_of_differences(
        {
            f"{method} - {FAR_ABOVE:g} ppo": bootstrap_difference(total, ppo)
            for method, total in totals.items()
        }
    )


def _transfers(runs: Runs) -> dict[str, PerSeed]:
    methods = runs.comparison.records
    return {m: runs.comparison.per_seed("forward_transfer", m) for m in methods}


def blc_above_lc_above_zero(runs: Runs) -> Verdict:
    """Test the order of forward transfer: BLC above LC, LC above 0."""
    transfer = _transfers(runs)
    blc, lc = transfer["mask-blc"], transfer["mask-lc"]
    # LC is compared with 0, which is learning as fast as an expert from scratch.
    differences = {"mask-blc - mask-lc": bootstrap_difference(blc, lc)}
    return verdict_of_differences(differences | {"mask-lc": bootstrap_mean(lc)})


def blc_transfers_best(runs: Runs) -> Verdict:
    """Test that BLC's forward transfer is above that of every other method."""
    transfer = _transfers(runs)
    blc = transfer.pop("mask-blc")
    differences = {
        f"above {method}": bootstrap_difference(blc, other)
        for method, other in transfer.items()
    }
    return verdict_of_differences(differences)


def _mean_steps(record: Record) -> PerSeed:
    """Return each agent's thousands of steps to 75 %, a mean over all later tasks.

    A task that is not learned counts as the whole of its training.
    """
    targets = dict(zip(record.tasks, record.targets, strict=True))
    steps = []
    for curve in record.training[1:]:  # on the first task there is nothing to reuse
        reached = curve.returns >= LEARNED * targets[curve.task]
        # argmax is the first True, but also 0 where there is none.
        first = np.where(reached.any(1), reached.argmax(1), curve.steps.size - 1)
        steps.append(curve.steps[first] / 1000)
    return np.mean(steps, 0)


def blc_is_fastest(runs: Runs) -> Verdict:
    """Test that BLC takes fewer steps to 75 % than every other method."""
    steps = {m: _mean_steps(record) for m, record in runs.comparison.records.items()}
    blc = steps.pop("mask-blc")
    differences = {
        f"than {method}": bootstrap_difference(other, blc)
        for method, other in steps.items()
    }
    verdict = verdict_of_differences(differences)
    return verdict._replace(evidence=f"thousands of steps fewer {verdict.evidence}")


def _learned(record: Record) -> Float[np.ndarray, "seeds visits"]:
    """Tell for each agent and visit whether its task was learned at its end."""
    tasks = record.schedule.task_of_visit
    visits = np.arange(len(tasks))
    threshold = LEARNED * record.targets[tasks]
    return (record.matrix[:, visits, tasks] >= threshold).astype(float)


def only_lc_learns_the_deep_graphs(runs: Runs) -> Verdict:
    """Test that LC alone learns the graphs of depth 4 and 5."""
    # The last four of the eight tasks are of depth 4 and 5.
    learned = {
        method: _learned(record)[:, 4:].sum(1).mean()
        for method, record in runs.comparison.records.items()
    }
    evidence = ", ".join(f"{method} {count:.2f}" for method, count in learned.items())
    others_fail = all(learned[method] < 1 for method in ("mask-ri", "ppo", "ewc-mh"))
    # Means over agents: 3.5 of 4 allows some agents to leave a graph unlearned.
    holds = others_fail and 0 < learned["mask-blc"] < 3.5 <= learned["mask-lc"]
    return Verdict(bool(holds), f"learned of the four tasks: {evidence}")


def coefficients_are_nearly_uniform(runs: Runs) -> Verdict:
    """Test that LC's final coefficients are within a factor of an equal share."""
    low, high = np.inf, 0.0
    for weights in runs.masks["mask-lc"].coefficients.values():
        for task, row in enumerate(weights.mean(0)):
            shares = row[: task + 1] * (task + 1)
            # The first task composes nothing: its row is not a number.
            if np.isfinite(shares).all():
                low, high = min(low, shares.min()), max(high, shares.max())
    holds = low >= 1 / NEARLY_UNIFORM and high <= NEARLY_UNIFORM
    return Verdict(bool(holds), f"{low:.2f} to {high:.2f} times an equal share")


def ri_masks_are_dissimilar(runs: Runs) -> Verdict:
    """Test that RI's masks of each two tasks differ in many bits."""
    distances = hamming_distances(runs.masks["mask-ri"].masks[FIRST_LAYER])
    pairs = distances[:, *np.triu_indices(distances.shape[1], 1)]
    evidence = f"{pairs.min():.0%} to {pairs.max():.0%} of the bits differ"
    return Verdict(bool(pairs.min() >= DISSIMILAR), evidence)


def lc_masks_grow_similar(runs: Runs) -> Verdict:
    """Test that LC's last two masks are closer than its first two."""
    distances = l2_distances(runs.masks["mask-lc"].scores[FIRST_LAYER])
    first, last = distances[:, 0, 1], distances[:, -2, -1]
    verdict = verdict_of_differences({"closer by": bootstrap_mean(first - last)})
    means = f"L2 of the first two {first.mean():.2f}, of the last two {last.mean():.2f}"
    return verdict._replace(evidence=f"{means}, {verdict.evidence}")


def significance_is_the_papers(runs: Runs) -> Verdict:
    """Test that LC differs from the methods from which it differs in the paper.

    The tests are Welch's, pooled as in the paper's appendix.
    """
    comparison = runs.comparison
    curriculum = comparison.first_record.short_name
    published_tests = published()["significance_vs_mask_lc"][curriculum]
    results: list[tuple[bool, str]] = []
    for method in comparison.records:
        for measure, test in published_tests.get(method, {}).items():
            samples = [_pooled(comparison, measure, m) for m in (REFERENCE, method)]
            p, published_p = welch_test(*samples), test["welch_p"]
            # Other seeds have other p-values: the same side of 5 % is agreement.
            agrees = (p < SIGNIFICANT) == (published_p < SIGNIFICANT)
            name = measure.replace("_", " ")
            text = f"{name} of {method}: {p:.3g} ({published_p:.3g})"
            results.append((agrees, text))
    differ = [text for agrees, text in results if not agrees]
    agreeing = len(results) - len(differ)
    count = f"{agreeing} of {len(results)} p-values on the same side"
    return Verdict(not differ, "; not ".join([count, *differ]))


def _pooled(comparison: Comparison, measure: str, method: str) -> np.ndarray:
    # Note: pooling treats tasks of one agent as independent; the paper does so.
    if measure == "forward_transfer":
        transfer = comparison.transfer(method)
        return transfer[np.isfinite(transfer)]
    return comparison.per_seed(measure, method)
