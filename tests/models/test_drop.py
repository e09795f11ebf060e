"""Dropout of channels before a covariance, by name: made, saved, trained, resumed, used."""

import onnxruntime
import pytest
import torch

import matrices
from images import make_image_tree
from rootpool.cli import main
from rootpool.models import (
    create_model,
    export_onnx,
    export_program,
    load_checkpoint,
    save_checkpoint,
)
from rootpool.models.spec import ModelSpec
from rootpool.nn import AdaptiveChannelDropout, make_pool
from rootpool.train import SettingsError
from rootpool.train.settings import resolve
from small_runs import CONFIG, assert_same_state, final, run, stopped_run

IMAGES = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def network(**options):
    torch.manual_seed(0)
    return create_model("patchnet", "covariance", 3, channel_dropout="adaptive", **options)


def test_it_is_before_the_covariance_and_drops_in_training_alone():
    model = network()
    assert isinstance(model.pool.channel_dropout, AdaptiveChannelDropout)
    # Channels with a small sum: where all agree, as at the start of a training, the rate is 0.
    features = matrices.random(4, 64, 7, 7).float()
    features = features - 0.8 * features.mean(1, keepdim=True)
    assert not torch.equal(model.pool(features), model.pool(features))
    assert torch.equal(model.eval().pool(features), model.pool(features))
    assert not isinstance(
        create_model("patchnet", "covariance", 3).pool.channel_dropout,
        type(model.pool.channel_dropout),
    )


def test_it_is_beside_the_class_token_too():
    model = create_model(
        "vit_tiny_patch16_224",
        "covariance",
        3,
        reduction=8,
        tokens="class+patches",
        channel_dropout="adaptive",
    )
    assert sum(isinstance(m, AdaptiveChannelDropout) for m in model.modules()) == 1


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_a_file_knows_it(tmp_path, name):
    model = network().eval()
    save_checkpoint(model, tmp_path / name)
    loaded = load_checkpoint(tmp_path / name).eval()
    assert loaded.spec == model.spec
    assert torch.equal(loaded(IMAGES), model(IMAGES))
    assert ModelSpec.from_json(model.spec.to_json()).channel_dropout == "adaptive"
    assert (
        "channel_dropout" not in create_model("patchnet").spec.to_json()
    )  # files of before say the same


def test_export_is_that_of_the_evaluation(tmp_path):
    model = network()
    with pytest.raises(ValueError, match="in training mode"):
        export_program(model)
    expected = model.eval()(IMAGES)
    assert torch.allclose(export_program(model).module()(IMAGES), expected, atol=1e-5)
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (logits,) = session.run(None, {"images": IMAGES.numpy()})
    assert torch.allclose(torch.from_numpy(logits), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: make_pool(8, channel_dropout="some"),
            "channel_dropout must be adaptive or None, got",
        ),
        (
            lambda: make_pool(8, "gap", channel_dropout="adaptive"),
            "before a covariance, and gap has none",
        ),
        (
            lambda: create_model("paper/alexnet", "gap", channel_dropout="adaptive"),
            "original pooling of this network has no channel_dropout; leave it out",
        ),
        (
            lambda: create_model("patchnet", make_pool(64), channel_dropout="adaptive"),
            "channel_dropout is for pools given by name",
        ),
    ],
)
def test_where_it_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_key_of_recipes():
    settings = resolve({"model": {"method": "covariance", "drop": "adaptive"}})
    assert settings.model.drop == "adaptive"
    assert resolve({}).model.drop is None
    with pytest.raises(SettingsError, match=r"model\.drop must be adaptive or null, got 'some'"):
        resolve({"model": {"drop": "some"}})


@pytest.mark.slow
def test_a_run_that_is_resumed_draws_the_same_masks(tmp_path):
    model = {**CONFIG["model"], "method": "covariance", "drop": "adaptive"}
    config = {**CONFIG, "model": model, "hybrid": None}
    whole = run(tmp_path / "whole", config=config)
    assert isinstance(whole.module.model.pool.channel_dropout, AdaptiveChannelDropout)
    stopped_run(tmp_path / "stopped", 7, config=config)
    run(tmp_path / "stopped", resume=True, config=config)
    assert_same_state(final(tmp_path / "stopped"), final(tmp_path / "whole"))


@pytest.mark.slow
def test_from_the_command_line_to_predictions(tmp_path, capsys):
    data, folder = tmp_path / "photos", tmp_path / "run"
    make_image_tree(data, classes=["blue", "red"], per_class=6, splits=("",))
    own = tmp_path / "mine.yaml"
    own.write_text(
        "model: {backbone: test_resnet, reduction: 8, method: covariance, drop: adaptive, lr: 0.01}\n"
        "data: {transform: resized-crop, crop: 64, batch_size: 4, workers: 0}\n"
        "trainer: {max_epochs: 1, accelerator: cpu}\n"
    )
    command = ["train", str(own), f"--data={data}", f"--output={folder}"]
    assert main([*command, "--show"]) == 0
    assert "drop: adaptive" in capsys.readouterr().out
    assert main(command) == 0
    tables = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for table in tables:
        assert main(["predict", str(folder), str(data), f"--csv={table}"]) == 0
    assert tables[0].read_text() == tables[1].read_text()  # nothing is drawn
    assert len(tables[0].read_text().splitlines()) == 13
    assert main(["evaluate", str(folder), f"--data={data}", f"--output={tmp_path / 'out'}"]) == 0
    assert main(["export", str(folder), f"--output={tmp_path / 'model.onnx'}"]) == 0
    assert (tmp_path / "model.onnx").is_file()
