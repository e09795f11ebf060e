import json
import subprocess
import sys

CODE = """
import json, sys
import rootpool
light = sorted(sys.modules)
import torch
before = set(sys.modules)
rootpool.linalg, rootpool.nn
print(json.dumps([light, sorted(set(sys.modules) - before)]))
"""


def test_what_an_import_brings():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    light, layers = json.loads(done.stdout)
    assert "torch" not in light  # the command line often needs none
    foreign = set(layers) - sys.stdlib_module_names
    assert {name.split(".")[0] for name in foreign} == {"rootpool"}
    above = {"models", "train", "heads", "analysis", "report", "paper", "cli"}
    assert not above & {name.split(".")[1] for name in foreign}
