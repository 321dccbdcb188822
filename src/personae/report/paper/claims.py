"""The paper's claims as data, with the verdicts on them."""

from personae.report.data.collection import MASK_METHODS
from personae.report.data.comparable import differing_settings
from personae.report.paper import evidence
from personae.report.paper.claim import Claim, Runs, Verdict

PAPER_CURRICULA = ("ct8", "ct12", "ct8-md", "mg10")
CLAIMS = (
    Claim(
        "no-forgetting",
        "Masks do not forget: the evaluation of a learned task never falls.",
        PAPER_CURRICULA,
        MASK_METHODS,
        evidence.masks_do_not_forget,
    ),
    Claim(
        "far-above-ppo",
        "The total evaluation of every mask method is far above PPO's: twice or more.",
        PAPER_CURRICULA,
        (*MASK_METHODS, "ppo"),
        evidence.far_above_ppo,
        causes={
            "ct8-md": "PPO's agents that learn graphs of depth 4 collect up to three "
            "times as much as others, here as in the paper (its interval is ± 116). RI "
            "learns half of the tasks, and can hardly have more than twice PPO's total."
        },
    ),
    Claim(
        "transfer-order",
        "Forward transfer: BLC above LC, LC above 0.",
        ("ct8", "ct12"),
        ("mask-lc", "mask-blc"),
        evidence.blc_above_lc_above_zero,
        experts=True,
    ),
    Claim(
        "blc-fastest",
        "BLC takes the fewest steps to 75 % of the target, in the mean of later tasks.",
        ("ct8", "ct12"),
        (*MASK_METHODS, "ppo", "ewc-mh"),
        evidence.blc_is_fastest,
    ),
    Claim(
        "only-lc-goes-deep",
        "Only LC learns the graphs of depth 4 and 5; BLC learns some of them, and RI, "
        "PPO and EWC learn none.",
        ("ct8-md",),
        (*MASK_METHODS, "ppo", "ewc-mh"),
        evidence.only_lc_learns_the_deep_graphs,
        causes={
            "ct8-md": "12 of PPO's 25 agents learn the graphs of depth 4 because they "
            "start from the network of the task before. The paper counts a task by the "
            "mean of five agents; by that mean PPO fails on the same tasks here (see "
            "the steps to 75 %)."
        },
    ),
    Claim(
        "blc-transfers-best",
        "BLC has the best forward transfer of all methods.",
        ("mg10",),
        (*MASK_METHODS, "ppo", "ewc-mh"),
        evidence.blc_transfers_best,
        experts=True,
    ),
    Claim(
        "uniform-coefficients",
        "LC's coefficients end nearly uniform: within a factor of two.",
        ("ct8", "mg10"),
        ("mask-lc",),
        evidence.coefficients_are_nearly_uniform,
        learned_masks=True,
    ),
    Claim(
        "ri-dissimilar",
        "RI's masks of different tasks are dissimilar.",
        ("ct8", "ct12", "mg10"),
        ("mask-ri",),
        evidence.ri_masks_are_dissimilar,
        learned_masks=True,
    ),
    Claim(
        "lc-grow-similar",
        "LC's masks become more and more similar.",
        ("ct8", "ct12", "mg10"),
        ("mask-lc",),
        evidence.lc_masks_grow_similar,
        learned_masks=True,
    ),
    Claim(
        "significance",
        "LC differs from the other methods where it did in the appendix (Welch, 5 %).",
        PAPER_CURRICULA,
        (*MASK_METHODS, "ppo", "ewc-mh"),
        evidence.significance_is_the_papers,
        experts=True,
        causes={
            "ct8": "25 agents show a difference that five hide. Six of LC's agents "
            "leave a task unlearned, and none of RI's does. For three of the six it is "
            "d3-100, the first task behind the other branch of the root, on which all "
            "earlier masks are misleading.",
            "mg10": "25 agents show a difference that five hide. 15 of LC's agents "
            "leave lava-n2-860 unlearned, as the paper's do on average; none of BLC's "
            "does.",
        },
    ),
)


def verdicts(runs: Runs) -> dict[str, tuple[Claim, Verdict]]:
    """Return the claims that apply to these runs, each with its verdict.

    No claim applies to runs whose settings differ.
    """
    if differing_settings([*runs.comparison.all_records.values()]):
        return {}
    claims = [claim for claim in CLAIMS if claim.applies_to(runs)]
    return {claim.name: (claim, claim.verdict_of(runs)) for claim in claims}
