"""Lifelong methods: which mask is worn, what is trained, what is kept."""

from personae.methods.base import Method as Method
from personae.methods.masked import Masked as Masked
from personae.methods.masked import MaskOptions as MaskOptions
from personae.methods.registry import METHODS as METHODS
from personae.methods.registry import make_method as make_method
