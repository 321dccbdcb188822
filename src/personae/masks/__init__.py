"""Modulating masks: scores become masks, masks are composed, banked and packed."""

from personae.bits import pack_bits as pack_bits
from personae.bits import unpack_bits as unpack_bits
from personae.masks.bank import Bank as Bank
from personae.masks.bank import empty_bank as empty_bank
from personae.masks.bank import reserve as reserve
from personae.masks.compose import compose as compose
from personae.masks.compose import initial_coefficients as initial_coefficients
from personae.masks.generate import bernoulli as bernoulli
from personae.masks.generate import continuous as continuous
from personae.masks.generate import make_rule as make_rule
from personae.masks.generate import ternary as ternary
from personae.masks.generate import threshold as threshold
from personae.masks.generate import top_k as top_k
from personae.masks.modulate import choose_by_layer as choose_by_layer
from personae.masks.modulate import init_scores as init_scores
from personae.masks.modulate import modulate as modulate
