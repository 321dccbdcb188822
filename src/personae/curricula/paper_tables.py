"""Tables of the paper that can be reproduced, and the settings in its text."""

import dataclasses

from personae.curricula.curriculum import Curriculum
from personae.curricula.registry import find_curriculum

COMMON_METHODS = ("mask-ri", "mask-lc", "mask-blc", "ppo", "ewc-mh")
TABLES = {
    # The paper shows a single head forgetting on CT8, without a number.
    "ct8": (*COMMON_METHODS, "ewc-sh"),
    "ct12": COMMON_METHODS,
    "ct8-md": COMMON_METHODS,
    "mg10": COMMON_METHODS,
}
"""The methods of each table, by the name of its curriculum."""
EPOCHS, EWC_STRENGTH = 8, 1e2
"""The values in the paper's text; its code had one epoch, and a strength of 1e5 on
MG10."""


def as_written(name: str) -> Curriculum:
    """Return a curriculum with the settings in the paper's text.

    Args:
        name: A registered name, such as "ct8".
    """
    curriculum = find_curriculum(name)
    return dataclasses.replace(
        curriculum,
        ppo=dataclasses.replace(curriculum.ppo, epochs=EPOCHS),
        ewc=dataclasses.replace(curriculum.ewc, strength=EWC_STRENGTH),
    )
