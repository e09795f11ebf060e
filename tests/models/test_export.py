from pathlib import Path

import numpy
import pytest
import torch

import matrices
from rootpool.models import EXPORTABLE, create_model, export_onnx, export_program

RESNET = ("resnet18", {"reduction": 16}, 64)
VIT = {"img_size": 32, "depth": 2, "reduction": 16}
SWIN = {"img_size": 64, "embed_dim": 12, "depths": (1, 1), "num_heads": (1, 2), "window_size": 4}
# name, options, image size, method: presets, convolutional networks, and those with tokens.
PROGRAMS = [
    *(("patchnet", {}, 28, pool) for pool in (*EXPORTABLE, "gap")),
    (*RESNET, "isqrt-cov"),
    ("vit_tiny_patch16_224", VIT | {"tokens": "class+patches"}, 32, "isqrt-cov"),
    ("swin_tiny_patch4_window7_224", SWIN | {"tokens": "class+patches"}, 64, "isqrt-cov"),
]


def network(name, options, pool="isqrt-cov"):
    torch.manual_seed(0)
    return create_model(name, pool, 5, **options).eval()


def images(model, size, batch):
    return matrices.random(batch, model.backbone.input_size[0], size, size, dtype=torch.float32)


@pytest.mark.parametrize(("name", "options", "size", "pool"), PROGRAMS)
def test_exported_program_gives_the_same_logits(name, options, size, pool):
    model = network(name, options, pool)
    program = export_program(model, images(model, size, 2))
    for batch in (1, 3):  # neither is the size that it was exported with
        x = images(model, size, batch)
        assert torch.allclose(program.module()(x), model(x), rtol=1e-4, atol=1e-5)


def test_onnx_gives_the_same_logits(tmp_path, monkeypatch):
    name, options, size = RESNET
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = network(name, options, "polar")
    path = tmp_path / "model.onnx"
    export_onnx(model, path, images(model, size, 2))
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (1, 3):
        x = images(model, size, batch)
        (logits,) = session.run(["logits"], {"images": x.numpy()})
        numpy.testing.assert_allclose(logits, model(x).detach(), rtol=1e-4, atol=1e-5)

    def fail(program, path, **_):
        Path(path).write_bytes(b"half")
        raise OSError("full")

    before = path.read_bytes()
    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", fail)
    with pytest.raises(OSError, match="full"):
        export_onnx(model, path, images(model, size, 2))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("pool", ["exact", "log"])
def test_decompositions_are_refused(tmp_path, pool):
    model = network("patchnet", {}, pool)
    with pytest.raises(ValueError, match=r"would need rootpool.*pool\.method = \"polar\""):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"training mode; call model\.eval\(\)"):
        export_program(model.train())
