"""Files of ours: what comes back, and what is refused. No code in a file runs, and nothing is fetched."""

import json
import re
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import hostile
import matrices
from rootpool.models import create_model, load_checkpoint, read_tensors, save_checkpoint
from rootpool.nn import CovariancePool, Method, SVDTrunc, resolve_pool

IMAGES = matrices.random(3, 1, 28, 28, dtype=torch.float32)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_round_trip(tmp_path, suffix):
    torch.manual_seed(0)
    model = create_model("patchnet", "isqrt-cov", 18, reduction=8, norm=False)
    model.pool.method = SVDTrunc(bound=1e8)
    path = tmp_path / f"patches.{suffix}"
    save_checkpoint(model, path, {"classes": "brick grass"})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    again = load_checkpoint(path)
    assert torch.equal(again(IMAGES), model(IMAGES))
    assert again.pool.method == SVDTrunc(bound=1e8)
    assert again.spec.options == {"norm": False}
    assert read_tensors(path)[1]["classes"] == "brick grass"
    other = load_checkpoint(path, pool="svd-pade")  # no weight depends on the method
    assert other.pool.method == resolve_pool("svd-pade")
    assert other.state_dict().keys() == model.state_dict().keys()
    for given in ({"pool": "svd-pade"}, {"norm": False}):
        with pytest.raises(TypeError, match=r"would describe a new network.*set_method\(model"):
            load_checkpoint(path, model, **given)


def test_networks_that_compute_while_they_are_made(tmp_path):
    model = create_model("torchvision/regnet_y_400mf", "exact", 2, reduction=4)
    save_checkpoint(model, tmp_path / "model.pt")
    again = load_checkpoint(tmp_path / "model.pt").state_dict()
    assert all(torch.equal(again[key], value) for key, value in model.state_dict().items())


def test_a_pooling_of_ones_own_has_to_be_given(tmp_path):
    model, other = (create_model("patchnet", CovariancePool(64, reduction=4), 5) for _ in "ab")
    path = tmp_path / "own.pt"
    save_checkpoint(model, path)
    with pytest.raises(ValueError, match="does not say how its network was made; make the network"):
        load_checkpoint(path)
    load_checkpoint(path, other)
    assert torch.equal(other.classifier.weight, model.classifier.weight)


@dataclass(frozen=True)
class Halved(Method):
    def __call__(self, P):
        return P / 2


@pytest.mark.parametrize(
    ("pool", "options"), [(Halved(), {}), ("exact", {"act_layer": nn.ReLU, "reduction": 4})]
)
def test_what_no_text_can_say(tmp_path, pool, options):
    model = create_model("resnet18" if options else "patchnet", pool, 4, **options)
    path = tmp_path / "model.pt"
    with pytest.raises(TypeError, match=r"cannot be written to a file \(.*model\.spec = None"):
        save_checkpoint(model, path)
    assert not path.exists()
    model.spec = None
    save_checkpoint(model, path)
    assert load_checkpoint(path, model) is model


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "model._orig_mod."])
def test_prefixes_of_wrappers(tmp_path, prefix):
    model = create_model("patchnet", "exact", 4)
    path = tmp_path / "wrapped.ckpt"
    torch.save({"state_dict": {prefix + k: v for k, v in model.state_dict().items()}}, path)
    other = load_checkpoint(path, create_model("patchnet", "exact", 4))
    assert torch.equal(other.classifier.weight, model.classifier.weight)


def test_other_classes_start_a_new_last_layer(tmp_path):
    model = create_model("patchnet", "exact", 10)
    path = tmp_path / "ten.safetensors"
    save_checkpoint(model, path)
    tuned = load_checkpoint(path, num_classes=4)
    assert tuned.num_classes == 4
    kept = [key for key in model.state_dict() if not key.startswith("classifier.")]
    assert all(torch.equal(tuned.state_dict()[key], model.state_dict()[key]) for key in kept)
    message = "has 10 classes, but the network has 4; num_classes=4 gives the last layer new"
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path, tuned)
    same = load_checkpoint(path, num_classes=10)
    assert torch.equal(same.classifier.weight, model.classifier.weight)


# --------------------------------------------------------------------------------------------------
# What is refused


def test_unmatched_names_are_listed_and_nothing_is_loaded(tmp_path):
    model = create_model("patchnet", "exact", 4, reduction=8)
    state = model.state_dict()
    state |= {f"backbone.{k}": torch.zeros(1) for k in range(300)}
    state["classifier.weight"] = torch.zeros(4, 7)
    del state["backbone.body.0.weight"], state["pool.reduction.1.running_mean"]
    path = tmp_path / "other.safetensors"
    save_file(state, path)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    listed = (
        "does not fit the network. missing from the file: backbone.body.0.weight, "
        "pool.reduction.1.running_mean; unknown to the network: backbone.0, .* and 290 more; "
        r"of another shape: classifier.weight \(4, 7\) for \(4, 36\)"
    )
    with pytest.raises(ValueError, match=listed):
        load_checkpoint(path, model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_code_is_refused_and_not_executed(tmp_path, zipped):
    marker, path = tmp_path / "executed", tmp_path / "evil.pth"
    state = create_model("patchnet", "exact", 4).state_dict()
    content = {"state_dict": state, "extra": hostile.RunsCode(marker)}
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    for load in (load_checkpoint, lambda path: create_model("resnet18", weights=path)):
        with pytest.raises(ValueError, match="contains more than weights, and nothing else is"):
            load(path)
    assert not marker.exists()


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("kept", [0, 5, 2000])
def test_truncated_files(tmp_path, suffix, kept):
    path = tmp_path / f"model.{suffix}"
    save_checkpoint(create_model("patchnet", "exact", 4), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        ValueError, match=r"is damaged or not a file of weights|contains more than weights"
    ):
        load_checkpoint(path)


ALEXNET = {"features.0.weight": torch.zeros(64, 3, 11, 11)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.zeros(2)], "contains a list, not tensors by name"),
        ({"state_dict": {"epoch": 3}}, "has no tensors by name"),
        (
            {"conv.weight": torch.zeros(2)},
            r"no known format: .* got conv.weight\. For the weights of a ba",
        ),
        (
            {"layer4.0.conv1.weight": torch.zeros(4, 3, 3, 3), "fc.weight": torch.zeros(2, 4)},
            r"for the weights of a backbone alone, use create_model\(name, weights=path\)",
        ),
        (
            {"state_dict": {"model.backbone.x": torch.zeros(2)}, "pytorch-lightning_version": "2"},
            r"is a checkpoint of a training; try rootpool\.train\.load_run\(path\)",
        ),
        (ALEXNET, "the file has no classifier"),
        (
            ALEXNET | {"classifier.0.weight": torch.zeros(2, 77)},
            r"takes 77 features, which is not the triangle \(32896\), matrix \(65536\) or average \(256\)",
        ),
    ],
)
def test_files_of_something_else(tmp_path, content, message):
    path = tmp_path / "model.pt"
    torch.save(content, path)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere\.pt"):
        load_checkpoint(tmp_path / "nowhere.pt")


# --------------------------------------------------------------------------------------------------
# What a file says about its network


def with_spec(path, **changes):
    save_checkpoint(create_model("patchnet", "exact", 4), path)
    tensors, text = read_tensors(path)
    spec = {**json.loads(text["rootpool.spec"]), **changes}
    save_file(tensors, path, {"rootpool.spec": json.dumps(spec)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 10**9}, "of another shape: classifier.bias (4,) for (1000000000,)"),
        ({"name": "hf-hub:somebody/network"}, "names hf-hub:somebody/network, which would be"),
        ({"name": "local-dir:/x"}, "names local-dir:/x, which would be fetched"),
        ({"name": "../../network"}, "unknown model"),
        ({"pool": ["os.system", {}]}, "unknown method"),
        ({"extra": 1}, "does not say how a network was made: TypeError"),
    ],
)
def test_descriptions_of_other_networks(tmp_path, changes, message):
    path = tmp_path / "model.safetensors"
    with_spec(path, **changes)
    with pytest.raises(ValueError, match=re.escape(message)):
        load_checkpoint(path)


def test_a_file_fetches_nothing(tmp_path):
    """All tensors are in the file, so where the first ones came from does not matter any more."""
    path = tmp_path / "model.safetensors"
    with_spec(path, options={"pretrained": True, "checkpoint_path": "x", "norm": True})
    assert load_checkpoint(path).spec.options == {"norm": True}
    with_spec(path, options={"name": "hf-hub:somebody/network"})
    with pytest.raises(TypeError, match="multiple values for keyword argument 'name'"):
        load_checkpoint(path)
