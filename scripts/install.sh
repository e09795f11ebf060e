#!/bin/sh
# Install packages into a virtual environment, which is made if there is none (or only the beginning of one).
#
#     PYTHON=python3.12 scripts/install.sh ENVIRONMENT ARGUMENTS OF PIP INSTALL...
#
# uv installs, because it is five times as fast as pip: the machine's own uv, or one that pip puts into the
# environment. Where uv cannot be had or fails, pip does the work. FRESH=1 removes the environment first.
set -eu
environment=$1
shift
python=$environment/bin/python

if [ -n "${FRESH:-}" ]; then rm -rf "$environment"; fi
if ! "$python" -m pip --version >/dev/null 2>&1; then
    "${PYTHON:-python3}" -m venv --clear "$environment"
fi

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    uv=$environment/bin/uv
    [ -x "$uv" ] || "$python" -m pip install --quiet --disable-pip-version-check uv 2>/dev/null || true
fi
if [ -x "$uv" ]; then
    "$uv" pip install --quiet --python "$python" "$@" && exit
    echo "$0: uv could not do it, pip tries now (some minutes)" >&2
else
    echo "$0: there is no uv, pip does it (some minutes)" >&2
fi
"$python" -m pip install --quiet --disable-pip-version-check "$@"
