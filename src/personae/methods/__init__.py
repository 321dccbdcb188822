"""Lifelong methods: they decide on masks, trained parameters and stored results."""

from personae.methods.clear import CLEAROptions as CLEAROptions
from personae.methods.contract import Method as Method
from personae.methods.contract import ReplaySpec as ReplaySpec
from personae.methods.contract import Traits as Traits
from personae.methods.ewc import EWCOptions as EWCOptions
from personae.methods.l2 import L2Options as L2Options
from personae.methods.masked import Masked as Masked
from personae.methods.masked import MaskOptions as MaskOptions
from personae.methods.online_ewc import OnlineEWCOptions as OnlineEWCOptions
from personae.methods.packnet import PackNetOptions as PackNetOptions
from personae.methods.progress_compress import (
    ProgressCompressOptions as ProgressCompressOptions,
)
from personae.methods.registry import METHODS as METHODS
from personae.methods.registry import MethodOptions as MethodOptions
from personae.methods.registry import make_method as make_method
