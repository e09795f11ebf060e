"""What importing rootpool does to a process: as little as possible."""

import json
import subprocess
import sys

CODE = """
import json, sys, threading
import rootpool
rootpool.__version__
seen = {"light": sorted(sys.modules)}
import torch
threads, before = torch.get_num_threads(), set(sys.modules)
rootpool.linalg.sqrtm, rootpool.nn.CovariancePool
rootpool.linalg.powm(torch.eye(2), torch.tensor([0.3, 0.4]))  # must not import the compiler
seen["layers"] = sorted(set(sys.modules) - before)
seen["threads"] = [threading.active_count(), torch.get_num_threads() - threads]
print(json.dumps(seen))
"""


def test_import_is_light():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    assert "torch" not in seen["light"], "torch is imported at the first use of a layer"
    foreign = set(seen["layers"]) - sys.stdlib_module_names
    assert {name.split(".")[0] for name in foreign} == {"rootpool"}
    layers = {name.split(".")[1] for name in foreign}
    assert not layers & {"models", "train", "report", "cli"}
    assert seen["threads"] == [1, 0], "no thread is started, and the number of threads stays"
