import json
import subprocess
import sys


def modules(code: str) -> set[str]:
    """What is imported by some code, apart from the standard library."""
    show = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {show}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout)) - sys.stdlib_module_names


def test_the_layers_bring_nothing_but_torch_and_each_other():
    foreign = modules("import torch, rootpool.nn") - modules("import torch")
    assert {name.split(".")[0] for name in foreign} == {"rootpool"}
    layers = {name.split(".")[1] for name in foreign if "." in name}
    assert not layers & {"models", "train", "analysis", "cli"}


def test_torch_is_imported_at_the_first_use():
    assert "torch" not in modules("import rootpool; rootpool.__version__")
    assert "torch" in modules("import rootpool; rootpool.linalg.sqrtm")
