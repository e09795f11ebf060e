#!/bin/sh
# Print the path of a Python of the version given, or fail: for `make core`, which tests the oldest supported one.
#
#     scripts/oldest_python.sh 3.10
works() { "$1" -c 'import sys, venv, ensurepip; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$2" 2>/dev/null; }

for candidate in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python "$(uv python find "$1" 2>/dev/null)"; do
    if [ -n "$candidate" ] && works "$candidate" "$1"; then
        command -v "$candidate"
        exit
    fi
done
exit 1
