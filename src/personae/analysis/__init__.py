"""Analysis of learned masks: their sizes and similarities, with numpy only."""

from personae.analysis.capacity import Usage as Usage
from personae.analysis.capacity import densities as densities
from personae.analysis.capacity import usage as usage
from personae.analysis.similarity import hamming_distances as hamming_distances
from personae.analysis.similarity import l2_distances as l2_distances
from personae.analysis.similarity import overlaps as overlaps
