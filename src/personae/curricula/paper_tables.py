"""The tables of the paper that can be reproduced, and the settings of its text."""

import dataclasses

from personae.curricula.curriculum import Curriculum
from personae.curricula.registry import find_curriculum

METHODS_OF_EVERY_TABLE = ("mask-ri", "mask-lc", "mask-blc", "ppo", "ewc-mh")
TABLES = {
    # The paper shows a single head forgetting on CT8, without a number.
    "ct8": (*METHODS_OF_EVERY_TABLE, "ewc-sh"),
    "ct12": METHODS_OF_EVERY_TABLE,
    "ct8-md": METHODS_OF_EVERY_TABLE,
    "mg10": METHODS_OF_EVERY_TABLE,
}
"""The methods of each table, by the name of its curriculum."""
EPOCHS, EWC_STRENGTH = 8, 1e2
"""What the paper's text has; its code made one epoch, and 1e5 on MG10."""


def as_written(name: str) -> Curriculum:
    """Return a curriculum with the settings of the paper's text."""
    curriculum = find_curriculum(name)
    return dataclasses.replace(
        curriculum,
        ppo=dataclasses.replace(curriculum.ppo, epochs=EPOCHS),
        ewc=dataclasses.replace(curriculum.ewc, strength=EWC_STRENGTH),
    )
