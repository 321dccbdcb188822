"""What was learned, looked at: masks and how tasks share them; numpy only."""

from personae.analysis.capacity import Usage as Usage
from personae.analysis.capacity import densities as densities
from personae.analysis.capacity import usage as usage
from personae.analysis.similarity import hamming_distances as hamming_distances
from personae.analysis.similarity import l2_distances as l2_distances
from personae.analysis.similarity import overlaps as overlaps
from personae.runs.learned_masks import LearnedMasks as LearnedMasks
from personae.runs.learned_masks import read_learned_masks as read_learned_masks
