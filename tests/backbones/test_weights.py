import equinox as eqx
import jax
import numpy as np
import pytest

from personae.backbones import describe_backbone, fingerprint, signed_constant


def conv(key=0):
    network = eqx.nn.Conv2d(3, 8, 5, key=jax.random.key(key))
    return signed_constant(network, jax.random.key(key))


@pytest.mark.parametrize(
    ("network", "fan_in"),
    [
        (eqx.nn.Linear(50, 40, key=jax.random.key(0)), 50),
        (eqx.nn.Conv2d(3, 8, 5, key=jax.random.key(0)), 75),
    ],
)
def test_weights_are_a_signed_constant(network, fan_in):
    backbone = signed_constant(network, jax.random.key(1))
    weight = np.asarray(backbone.weight)
    np.testing.assert_allclose(np.abs(weight), np.sqrt(2 / fan_in), rtol=1e-6)
    assert 0.4 < (weight > 0).mean() < 0.6
    assert not np.asarray(backbone.bias).any()


def test_fingerprint_names_one_backbone():
    assert fingerprint(describe_backbone(conv(0))) == fingerprint(
        describe_backbone(conv(0))
    )
    assert fingerprint(describe_backbone(conv(0))) != fingerprint(
        describe_backbone(conv(1))
    )


def test_one_flipped_sign_changes_the_fingerprint():
    backbone = conv()
    flipped = eqx.tree_at(
        lambda n: n.weight, backbone, backbone.weight.at[0, 0, 0, 0].multiply(-1)
    )
    assert fingerprint(describe_backbone(backbone)) != fingerprint(
        describe_backbone(flipped)
    )


def test_a_weight_costs_one_bit():
    described = describe_backbone(conv())
    assert described["signs/weight"].nbytes == 8 * 3 * 5 * 5 / 8
