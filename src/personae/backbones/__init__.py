"""Networks that get modulated, and the fixed random weights they start from."""

from personae.backbones.convnet import ConvNet as ConvNet
from personae.backbones.distributions import Categorical as Categorical
from personae.backbones.distributions import DiagonalGaussian as DiagonalGaussian
from personae.backbones.distributions import MultiCategorical as MultiCategorical
from personae.backbones.encoder import Encoder as Encoder
from personae.backbones.mlp import SeparateMLP as SeparateMLP
from personae.backbones.mlp import SharedMLP as SharedMLP
from personae.backbones.weights import describe_backbone as describe_backbone
from personae.backbones.weights import fingerprint as fingerprint
from personae.backbones.weights import named_weights as named_weights
from personae.backbones.weights import signed_constant as signed_constant
from personae.backbones.weights import split_weights as split_weights
