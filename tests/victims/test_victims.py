"""The models under audit."""

import pytest
import torch

from leakscope.errors import InputError
from leakscope.victims import MODELS, build_victim


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [("cnn-mnist", (1, 28, 28), 62, 338_778), ("cnn-cifar", (3, 32, 32), 100, 1_734_348)],
)
def test_parameter_counts_are_the_papers(name, shape, classes, count):
    victim = build_victim(name, shape=shape, classes=classes)
    assert sum(size.numel() for size in victim.sizes.values()) == count


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_every_model_classifies_and_is_seeded(name, shape):
    victim, twin = (build_victim(name, shape=shape, classes=7, seed=3) for _ in range(2))
    x = torch.rand(2, *shape)
    out = victim.call(victim.weights(), victim.buffers(), x)
    assert out.shape == (2, 7)
    assert torch.equal(out, twin.call(twin.weights(), twin.buffers(), x))
    other = build_victim(name, shape=shape, classes=7, seed=4)
    assert not torch.equal(out, other.call(other.weights(), other.buffers(), x))


def test_resnet8_has_the_authors_feature_size():
    victim = build_victim("resnet8", shape=(1, 28, 28), classes=62)
    assert (1000, 2048) in [tuple(size) for size in victim.sizes.values()]


def test_vit_starts_with_zero_tokens_and_one_patch():
    victim = build_victim("vit", shape=(1, 28, 28), classes=62)
    assert not victim.weights()["cls"].any()
    assert victim.sizes["patch.weight"] == (384, 784)


def test_a_users_factory_from_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import math, torch\n"
        "def net(shape, classes):\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(math.prod(shape), classes))\n"
    )
    victim = build_victim(f"{path}:net", shape=(1, 8, 8), classes=3)
    assert list(victim.sizes) == ["1.weight", "1.bias"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cnn-mnits", "did you mean 'cnn-mnist'"),
        ("no.such.package:net", "cannot import"),
        ("leakscope.victims:nothing", "has no function"),
        ("missing.py:net", "there is no file"),
    ],
)
def test_unknown_models_are_explained(name, words):
    with pytest.raises(InputError, match=words):
        build_victim(name, shape=(1, 28, 28), classes=5)


def test_a_model_with_other_class_count_is_refused(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(
        "import torch\ndef net(shape, classes):\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 9))\n"
    )
    with pytest.raises(InputError, match="not 3 logits"):
        build_victim(f"{path}:net", shape=(1, 8, 8), classes=3)
    with pytest.raises(InputError, match="does not take images"):
        build_victim(f"{path}:net", shape=(1, 9, 9), classes=9)
