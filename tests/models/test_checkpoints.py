"""Files of ours: what comes back, and what is refused."""

import json
import math
import re
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import hostile
import matrices
from rootpool.models import create_model, load_checkpoint, read_tensors, save_checkpoint
from rootpool.nn import CovariancePool, Method, SVDTrunc

CLASSES = 3


def images(*shape, seed=0):
    return matrices.random(*shape, dtype=torch.float32, seed=seed)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_round_trip(tmp_path, suffix):
    torch.manual_seed(0)
    model = create_model("patchnet", "isqrt-cov", 18, reduction=8, norm=False)
    model.pool.method = SVDTrunc(bound=1e8)
    path = tmp_path / f"patches.{suffix}"
    save_checkpoint(model, path, {"classes": "brick grass"})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    again = load_checkpoint(path)
    x = images(3, 1, 28, 28)
    assert torch.equal(again(x), model(x))
    assert again.pool.method == SVDTrunc(bound=1e8)
    assert again.spec.options == {"norm": False}
    assert read_tensors(path)[1]["classes"] == "brick grass"
    assert (
        load_checkpoint(path, pool="svd-pade").pool.method == CovariancePool(1, "svd-pade").method
    )


def test_weights_do_not_depend_on_the_method(tmp_path):
    states = []
    for method in ("exact", "svd-newton"):
        torch.manual_seed(0)
        path = tmp_path / f"{method}.safetensors"
        save_checkpoint(create_model("patchnet", method, 4), path)
        states.append(read_tensors(path)[0])
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_a_pooling_of_ones_own_has_to_be_given(tmp_path):
    model = create_model("patchnet", CovariancePool(64, reduction=4), 5)
    path = tmp_path / "own.pt"
    save_checkpoint(model, path)
    with pytest.raises(ValueError, match="does not say how its network was made; make the network"):
        load_checkpoint(path)
    other = create_model("patchnet", CovariancePool(64, reduction=4), 5)
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

    four = create_model("patchnet", "exact", 4)
    message = "has 10 classes, but the network has 4; num_classes=4 gives the last layer new"
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path, four)
    load_checkpoint(path, four, num_classes=4)
    assert torch.equal(four.backbone.body[0].weight, model.backbone.body[0].weight)
    same = load_checkpoint(path, num_classes=10)
    assert torch.equal(same.classifier.weight, model.classifier.weight)


# --------------------------------------------------------------------------------------------------
# What is refused


def test_unmatched_names_are_listed_and_nothing_is_loaded(tmp_path):
    model = create_model("patchnet", "exact", 4, reduction=8)
    state = model.state_dict()
    state["backbone.extra"] = torch.zeros(1)
    state["classifier.weight"] = torch.zeros(4, 7)
    del state["backbone.body.0.weight"], state["pool.reduction.1.running_mean"]
    path = tmp_path / "other.safetensors"
    save_file(state, path)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    listed = (
        "does not fit the network. missing from the file: backbone.body.0.weight, "
        "pool.reduction.1.running_mean; unknown to the network: backbone.extra; "
        "of another shape: classifier.weight (4, 7) for (4, 36)"
    )
    with pytest.raises(ValueError, match=re.escape(listed)):
        load_checkpoint(path, model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_of_another_network_some_names_are_listed(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({f"backbone.{k}": torch.zeros(1) for k in range(300)}, path)
    with pytest.raises(ValueError, match="and 290 more") as raised:
        load_checkpoint(path, create_model("patchnet", "exact", 4))
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_code_is_refused_and_not_executed(tmp_path, zipped):
    marker, path = tmp_path / "executed", tmp_path / "evil.pth"
    state = create_model("patchnet", "exact", 4).state_dict()
    content = {"state_dict": state, "extra": hostile.RunsCode(marker)}
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    for load in (load_checkpoint, lambda path: create_model("resnet18", weights=path)):
        with pytest.raises(
            ValueError, match="contains more than weights, and nothing else is load"
        ):
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
            {"features.0.weight": torch.zeros(4, 3, 3, 3), "classifier.weight": torch.zeros(2, 4)},
            "not an AlexNet, ResNet-50 or ResNet-101",
        ),
        ({"features.0.weight": torch.zeros(64, 3, 11, 11)}, "the file has no classifier"),
        (
            {
                "features.0.weight": torch.zeros(64, 3, 11, 11),
                "classifier.0.weight": torch.zeros(2, 77),
            },
            r"takes 77 features, which is not the triangle \(32896\), matrix \(65536\) or average \(256\)",
        ),
    ],
)
def test_files_of_something_else(tmp_path, content, message):
    path = tmp_path / "model.pt"
    torch.save(content, path)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path)


def test_a_model_and_options_of_another_are_refused(tmp_path):
    model = create_model("patchnet", "exact", 4)
    path = tmp_path / "model.pt"
    save_checkpoint(model, path)
    with pytest.raises(TypeError, match=r"pool would describe a new network.*set_method\(model"):
        load_checkpoint(path, model, pool="svd-pade")
    with pytest.raises(TypeError, match="norm would describe a new network, but a model was g"):
        load_checkpoint(path, model, norm=False)


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
        ({"num_classes": 10**9}, r"of another shape: classifier.bias \(4,\) for \(1000000000,\)"),
        ({"name": "hf-hub:somebody/network"}, "names hf-hub:somebody/network, which would be"),
        ({"name": "local-dir:/x"}, "names local-dir:/x, which would be fetched"),
        ({"name": "../../network"}, "unknown model"),
        ({"pool": ["os.system", {}]}, "does not say how a network was made: .*unknown method"),
        ({"extra": 1}, "does not say how a network was made: TypeError"),
    ],
)
def test_descriptions_of_other_networks(tmp_path, changes, message):
    path = tmp_path / "model.safetensors"
    with_spec(path, **changes)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path)


def test_a_file_fetches_nothing(tmp_path):
    """All tensors are in the file, so where the first ones came from does not matter any more."""
    path = tmp_path / "model.safetensors"
    with_spec(path, options={"pretrained": True, "checkpoint_path": "x", "norm": True})
    assert load_checkpoint(path).spec.options == {"norm": True}


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere\.pt"):
        load_checkpoint(tmp_path / "nowhere.pt")


def test_a_learned_filter_comes_and_goes_with_the_method(tmp_path):
    path = tmp_path / "learned.safetensors"
    model = create_model("patchnet", "learned-power", 4)
    with torch.no_grad():
        model.pool.learned["learned-power"].fill_(-1.0)
    save_checkpoint(model, path)
    again = load_checkpoint(path)
    assert again.pool.learned["learned-power"].item() == -1.0
    other = load_checkpoint(path, pool="exact")
    assert not list(other.pool.parameters())
    save_checkpoint(other, path)
    anew = load_checkpoint(path, pool="learned-power")
    assert anew.pool.learned["learned-power"].item() == pytest.approx(math.log(0.5))
