"""Colours that colour-blind readers tell apart too (Okabe and Ito)."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
