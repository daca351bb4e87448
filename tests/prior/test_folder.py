"""The folder of a prior: what is read, refused and fetched."""

import json
import shutil
import sys

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file

from leakscope.errors import InputError
from leakscope.prior.folder import (
    CONFIG,
    FACTS,
    SCHEDULE,
    WEIGHTS,
    check_prior,
    diffusers,
    find_prior,
    fingerprint,
    read_denoiser,
    read_facts,
    refuse_overlap,
    require_same,
)
from leakscope.types import ClientBatch, Normalisation
from priors import public_images


@pytest.fixture
def copy(prior, tmp_path):
    return shutil.copytree(prior, tmp_path / "copy")


def test_a_prior_counts_by_its_content_and_not_by_its_place(prior, copy):
    assert fingerprint(copy) == fingerprint(prior) == read_facts(prior)["fingerprint"]
    require_same(copy, fingerprint(prior))
    weights = load_file(copy / WEIGHTS)
    name = next(iter(weights))
    save_file({**weights, name: weights[name] + 1e-3}, copy / WEIGHTS)
    assert fingerprint(copy) != fingerprint(prior)
    with pytest.raises(InputError, match="not the one that this run was planned with"):
        require_same(copy, fingerprint(prior))


def test_the_layout_of_a_pipeline_is_read_too(prior, tmp_path):
    for part, names in (("unet", (CONFIG, WEIGHTS)), ("scheduler", (SCHEDULE,))):
        (tmp_path / part).mkdir()
        for name in names:
            shutil.copy(prior / name, tmp_path / part / name)
    x = torch.randn(2, 1, 16, 16)
    assert torch.equal(read_denoiser(tmp_path).predict(x, 7), read_denoiser(prior).predict(x, 7))
    assert fingerprint(tmp_path) == fingerprint(prior)


def test_half_precision_is_read_as_single(copy):
    save_file({name: value.half() for name, value in load_file(copy / WEIGHTS).items()}, copy / WEIGHTS)
    assert {value.dtype for value in read_denoiser(copy).network.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        (CONFIG, {"_class_name": "Transformer2DModel"}, "not a UNet2DModel"),
        (CONFIG, {"out_channels": 2}, "more than the noise"),
        (CONFIG, {"num_class_embeds": 10}, "told a class"),
        (SCHEDULE, {"prediction_type": "v_prediction"}, "does not predict the noise"),
    ],
)
def test_another_kind_of_model_is_refused(copy, file, change, words):
    content = json.loads((copy / file).read_text())
    (copy / file).write_text(json.dumps({**content, **change}))
    with pytest.raises(InputError, match=words):
        check_prior(copy)


@pytest.mark.parametrize("content", [b"{", b"", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_damaged_settings_are_named_all_at_once(copy, content):
    (copy / CONFIG).write_bytes(content)
    (copy / SCHEDULE).write_bytes(content)
    with pytest.raises(InputError) as refused:
        check_prior(copy)
    found = [problem.found.partition(":")[0] for problem in refused.value.problems]
    assert found == [f"{copy / name} is damaged" for name in (CONFIG, SCHEDULE)]
    assert all("prior train" in problem.fix for problem in refused.value.problems)


def test_damaged_facts_are_named(copy):
    (copy / FACTS).write_text("{")
    with pytest.raises(InputError, match=r"prior\.json is damaged"):
        read_facts(copy)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        (CONFIG, {"block_out_channels": "wide"}),
        (CONFIG, {"in_channels": "1", "out_channels": "1"}),
        (SCHEDULE, {"beta_schedule": 3}),
    ],
)
def test_settings_that_make_no_network_are_refused(copy, file, change):
    content = json.loads((copy / file).read_text())
    (copy / file).write_text(json.dumps({**content, **change}))
    with pytest.raises(InputError, match="cannot be read"):
        read_denoiser(copy)


def test_missing_files_are_named_all_at_once(copy):
    (copy / WEIGHTS).unlink()
    (copy / SCHEDULE).unlink()
    with pytest.raises(InputError) as refused:
        check_prior(copy)
    assert len(refused.value.problems) == 2
    assert "prior train" in refused.value.problems[0].fix


def test_weights_of_another_network_are_refused(copy):
    weights = load_file(copy / WEIGHTS)
    save_file({name: torch.zeros(3) for name in weights}, copy / WEIGHTS)
    with pytest.raises(InputError, match="cannot be read"):
        read_denoiser(copy)


def test_a_prior_that_has_seen_the_client_is_refused(prior):
    seen = public_images().pixels[:5].float() / 255
    images = torch.cat([seen, torch.rand(2, 1, 12, 12)])
    normalisation = Normalisation((0.5,), (0.25,))
    refuse_overlap(prior, ClientBatch(images[5:], torch.zeros(2).long(), 2, normalisation, "small"))
    with pytest.raises(InputError, match="trained on 5 of the client's 7 images"):
        refuse_overlap(prior, ClientBatch(images, torch.zeros(7).long(), 2, normalisation, "small"))


def test_no_folder_and_no_hub(monkeypatch, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        find_prior(str(tmp_path / "nowhere"))

    def offline(*_: object, **__: object) -> str:
        raise ConnectionError("there is no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(InputError, match="there is no network") as refused:
        find_prior("somebody/ddpm")
    assert "downloaded" in refused.value.problems[0].fix


def test_a_name_on_the_hub_becomes_a_folder(monkeypatch, prior):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(prior) + name[:0])
    assert find_prior("somebody/ddpm") == prior


def test_without_diffusers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(InputError, match=r"leakscope\[diffusion\]"):
        diffusers()
