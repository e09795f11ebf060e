import subprocess
import sys

import pytest


@pytest.mark.slow
def test_measures_need_torch_alone():
    code = (
        "import sys, rootpool.report\n"
        "heavy = {'lightning', 'matplotlib', 'timm', 'torchvision', 'yaml'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
