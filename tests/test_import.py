import json
import subprocess
import sys


def test_import_brings_nothing_but_torch_and_our_two_layers():
    code = (
        "import json, sys, torch; before = set(sys.modules); import rootpool\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = set(json.loads(done.stdout)) - sys.stdlib_module_names
    layers = {".".join(name.split(".")[:2]) for name in foreign}
    assert layers == {"rootpool", "rootpool.linalg", "rootpool.nn"}
