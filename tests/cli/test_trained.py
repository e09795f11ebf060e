"""What is done with a trained network: evaluate, predict, export."""

import json
from dataclasses import replace

import onnxruntime
import pytest
import torch

import small_runs
from images import make_image_tree
from rootpool.cli import main
from rootpool.models import create_model, save_checkpoint
from rootpool.nn import covariance_pools
from rootpool.report import read_records
from rootpool.train import SettingsError, export
from rootpool.train.evaluation import data_of, evaluate, find_images, load_run, predict
from small_runs import typed

pytestmark = pytest.mark.slow
CLASSES = ["[红]", "blue", "green"]


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """A network that has learned colours, from a flat folder of six photographs of each."""
    folder = tmp_path_factory.mktemp("colours")
    make_image_tree(folder / "photos", classes=CLASSES, per_class=6, splits=("",))
    torch.manual_seed(0)
    start = create_model("test_resnet", num_classes=4, reduction=8)
    save_checkpoint(start, folder / "start.pt")
    network = "backbone=test_resnet reduction=8 optimizer=adamw lr=0.01 backbone_lr=null"
    data = "transform=resized-crop crop=64 batch_size=6 workers=0"
    settings = [f"model.{one}" for one in network.split()] + [f"data.{one}" for one in data.split()]
    options = {"data": "photos", "output": "run", "weights": "start.pt"}
    flags = [f"--{name}={folder / path}" for name, path in options.items()]
    ends = ["trainer.max_epochs=16", "trainer.accelerator=cpu"]
    assert run("train", "birds", *flags, *settings, *ends) == 0
    return folder


def test_the_end_of_a_training_names_the_best_epoch_and_the_next_step(colours, capsys):
    assert run("train", "--resume", "--output", colours / "run") == 0
    out = capsys.readouterr().out
    assert "finished 16 epochs of 16\nlowest validation error, in epoch" in out
    assert "top-5" not in out  # of three classes
    assert f"next: rootpool evaluate {colours / 'run'}" in out


def test_a_run_folder_is_evaluated_on_any_folder_of_its_classes(colours, tmp_path, capsys):
    make_image_tree(tmp_path / "new", classes=["green", "[红]"], per_class=3, splits=("",))
    # Colours go round the wheel by number of classes: those of two are not those of three.
    output = tmp_path / "out"
    assert run("evaluate", colours / "run", "--data", tmp_path / "new", "--output", output) == 0
    out = capsys.readouterr().out
    assert "best.ckpt" in out
    assert "top-1 error" in out
    assert "top-5" not in out  # of three classes
    rows = read_records(output / "classes.csv")
    assert [(row["class"], row["images"]) for row in rows] == [("[红]", 3), ("green", 3)]
    confusion = read_records(output / "confusion.csv")
    assert [sum(row[name] for name in CLASSES) for row in confusion] == [3, 0, 3]
    page = (output / "index.html").read_text(encoding="utf-8")
    assert "Predicted class by true class" in page
    assert "top-5" not in page


def test_an_image_and_its_mirror_image_decide_together(colours, capsys):
    trained = load_run(colours / "run")
    network, images = trained.module.model.eval(), data_of(trained).splits.val
    X, labels = (
        torch.stack([torch.as_tensor(part) for part in parts])
        for parts in zip(*images, strict=True)
    )
    with torch.no_grad():
        logits = (network(X) + network(X.flip(-1))) / 2
    found = evaluate(trained, mirrored=True)
    expected = torch.nn.functional.cross_entropy(logits, labels).item()
    assert found.metrics["val_loss"] == pytest.approx(expected, rel=1e-5)
    assert found.metrics["val_loss"] != evaluate(trained).metrics["val_loss"]  # and not for ever
    assert run("evaluate", colours / "run", "--mirrored") == 0
    assert "with mirror images" in " ".join(capsys.readouterr().out.split())


def test_a_folder_is_predicted_to_a_table_in_batches(colours, tmp_path, capsys):
    table, kept = tmp_path / "guesses.csv", tmp_path / "kept"
    table.write_text("of before")
    kept.hardlink_to(table)  # which would be written over, too
    # The last epoch: which one is best is decided by three validation images, and so by rounding.
    last = colours / "run" / "last.ckpt"
    assert run("predict", last, colours / "photos", "--csv", table, "--top", 2) == 0
    assert f"{table}: 18 images" in capsys.readouterr().out
    rows = read_records(table)
    assert list(rows[0]) == ["image", "class_1", "share_1", "class_2", "share_2"]
    right = sum(f"/{row['class_1']}/" in row["image"] for row in rows)
    assert right >= 15  # of 18
    loaded = load_run(last)
    name, share = predict(loaded, [rows[0]["image"]])[0][0]  # alone, not in a batch
    assert (name, pytest.approx(share, abs=1e-4)) == (rows[0]["class_1"], rows[0]["share_1"])


def test_images_in_folders_behind_links_are_found(tmp_path):
    elsewhere = make_image_tree(tmp_path / "elsewhere", classes=2, per_class=2, splits=("",))
    folder = make_image_tree(tmp_path / "here", classes=1, per_class=1, splits=("",))
    (folder / "linked").symlink_to(elsewhere)
    linked = [f"linked/class0{k}/{j}.jpg" for k in (0, 1) for j in (0, 1)]
    found = find_images([folder])
    assert [str(path.relative_to(folder)) for path in found] == ["class00/0.jpg", *linked]
    assert find_images([found[0], elsewhere]) == [found[0], *sorted(elsewhere.rglob("*.jpg"))]


def test_bad_images_of_a_prediction(colours, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"")
    good = colours / "photos" / "[红]" / "0.jpg"
    assert run("predict", colours / "run", tmp_path) == 1
    assert "the file is empty" in capsys.readouterr().err
    table = tmp_path / "guesses.csv"
    table.write_text("of before")
    assert run("predict", colours / "run", good, tmp_path, "--csv", table) == 1
    assert table.read_text() == "of before"
    capsys.readouterr()
    assert run("predict", colours / "run", tmp_path, good, "--on-bad-image", "skip") == 0
    out = capsys.readouterr().out
    assert "left out" in out
    assert "[红]" in out  # shown, not obeyed as markup
    shares = [float(line.split()[-3]) for line in out.splitlines() if " % " in line]
    assert len(shares) == 3  # five, or all there are
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_an_exported_run_has_its_size_and_labels_and_computes_the_same(
    colours, suffix, tmp_path, capsys
):
    path, kept = tmp_path / f"colours{suffix}", tmp_path / "kept"
    path.write_text("of before")
    kept.hardlink_to(path)
    assert run("export", colours / "run", "--output", path) == 0
    out = capsys.readouterr().out
    assert "images of 3 x 64 x 64 to 3 classes" in out
    assert "minimax (matrix products) instead of exact" in out
    assert kept.read_text() == "of before"
    images = torch.randn(5, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    model = load_run(colours / "run").module
    assert model.model.backbone.input_size == (3, 64, 64)  # what export_onnx takes by itself
    with torch.no_grad():
        expected = model(images)
    if suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        (got,) = session.run(None, {"images": images.numpy()})
        about = session.get_modelmeta().custom_metadata_map
        got = torch.from_numpy(got)
    else:
        about = {"classes": "", "image": ""}
        got = torch.export.load(path, extra_files=about).module()(images)
    assert json.loads(about["classes"]) == CLASSES
    assert json.loads(about["image"])["shape"] == [3, 64, 64]
    assert (got - expected).abs().max() < 0.02 * expected.abs().max()


def test_a_training_starts_from_the_folder_of_a_run(colours, tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text(
        "model: {backbone: test_resnet, reduction: 8, lr: 0.0, momentum: 0.0}\n"
        "data: {transform: resized-crop, crop: 64, batch_size: 6, workers: 0}\n"
        "trainer: {max_epochs: 1, limit_train_batches: 1, accelerator: cpu}\n"
    )
    data, output = colours / "photos", tmp_path / "my run"
    start = ["train", tmp_path / "mine.yaml", "--data", data, "--weights"]
    assert run(*start, colours / "run", "--output", output) == 0
    assert f"next: rootpool evaluate '{output}', or" in capsys.readouterr().out  # for a shell
    before, after = (load_run(path).module.model for path in (colours / "run", output))
    assert torch.equal(before.classifier.weight, after.classifier.weight)  # at a rate of zero
    fewer, output = make_image_tree(tmp_path / "data", classes=2), tmp_path / "fewer"
    options = ["model.lr=0.006", "model.backbone_lr=0.001", "--output", output]
    start = ["train", tmp_path / "mine.yaml", "--data", fewer, "--weights", colours / "run"]
    assert run(*start, *options) == 0
    state = torch.load(output / "last.ckpt", weights_only=True)
    assert state["state_dict"]["model.classifier.weight"].shape[0] == 2  # a new last layer
    groups = state["optimizer_states"][0]["param_groups"]
    rates = {group["name"]: group["initial_lr"] for group in groups}
    assert rates == {"backbone": 1e-3, "pool": 1e-3, "classifier": 6e-3}


def test_mistakes_around_a_run(colours, tmp_path, capsys):
    make_image_tree(tmp_path / "odd", classes=["green", "violet"], splits=("",))
    for count in (2, 3):
        make_image_tree(tmp_path / f"{count}", classes=count)
    (tmp_path / "file.ckpt").write_bytes(b"no checkpoint")
    data = ["evaluate", colours / "run", "--data"]
    (tmp_path / "empty").mkdir()
    net = colours / "run"
    for arguments, message in (
        ([*data, tmp_path / "odd"], "folders that are not classes of the run: violet"),
        ([*data, tmp_path / "2"], "knows 3 classes, the data has 2"),
        ([*data, tmp_path / "3"], "'class00' instead of '[红]'"),
        (["evaluate", tmp_path / "file.ckpt"], "is not a checkpoint of rootpool train"),
        (["evaluate", tmp_path], f"there is no checkpoint in {tmp_path}"),
        (["evaluate", net, "--output", colours / "start.pt"], "is a file, not a folder"),
        (["export", tmp_path / "nothing"], "there is no checkpoint"),
        (["predict", net, tmp_path / "x.jpg"], "there is no image or folder"),
        (["predict", net, tmp_path / "empty"], "there are no images in"),
        (["train", "patches", "--output", net], "already contains a run; continue it with --res"),
        (["train", "--resume"], "give a recipe, such as patches (needs no data)"),
        (["train", "--resume", "--output", tmp_path], "is not a run to continue"),
    ):
        assert run(*arguments) == 1
        assert message in capsys.readouterr().err


def test_a_refused_export_leaves_the_file_and_the_network_as_they_were(
    colours, tmp_path, monkeypatch
):
    def write(model, part, images, about):
        assert {pool.method.name for pool in covariance_pools(model).values()} == {"minimax"}
        part.write_bytes(b"a program")

    monkeypatch.setattr(export, "export_onnx", write)
    monkeypatch.setattr(export, "_run_onnx", lambda part, images: torch.zeros(len(images), 3))
    trained, path = load_run(colours / "run"), tmp_path / "model.onnx"
    path.write_bytes(b"of before")
    with pytest.raises(SettingsError, match=r"logits of the program would differ by"):
        export.export_run(trained, path)
    assert path.read_bytes() == b"of before"
    assert trained.module.pooling == "exact"


@pytest.mark.parametrize("method", ["log", "brownian"])
def test_what_cannot_be_exported_is_refused_at_once(method, tmp_path, monkeypatch):
    small_runs.run(tmp_path, config=typed(f"model.method={method} ; trainer.max_epochs=1"))
    monkeypatch.setattr(export, "_images", None)  # called before anything is exported
    with pytest.raises(SettingsError, match=f"{method} is neither made of matrix products nor a"):
        export.export_run(load_run(tmp_path), tmp_path / "model.onnx")


def test_an_export_carries_the_statistics_of_every_transform(colours):
    trained = load_run(colours / "run")
    options = {**trained.data_options, "transform": "cifar", "resize": 32, "crop": 32}
    about = export._about(replace(trained, data_options=options), torch.zeros(1, 3, 32, 32))
    image = json.loads(about["image"])
    assert image["mean"] == pytest.approx([0.4914, 0.4824, 0.4467], abs=1e-3)
    assert image["std"] == pytest.approx([0.247, 0.2435, 0.2616], abs=1e-3)
