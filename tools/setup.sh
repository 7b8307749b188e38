#!/bin/sh
# Make the virtual environment that the Makefile works in: tools/setup.sh DIRECTORY EXTRAS [STAMP]
# EXTRAS are those of setup.cfg, with commas. Alone, "docs" installs no package, only what the pages need: that takes no compiler. CONSTRAINT narrows one of them ("pyspark==4.2.*"). PYTHON chooses the interpreter; else the first that is 3.11 or later.
set -eu
venv=$1
extras=$2
stamp=${3:-$venv/.ready}
log=$venv/setup.log

fail() {
    echo "setup: $*" >&2
    exit 1
}

usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# A second checkout may borrow an environment by a link, to run what is installed there. Installing would make the lender import
# this checkout's package.
for place in "${venv%%/*}" "$venv"; do
    case $place in
    /*) ;; # named by hand: make VENV=/path
    *) [ ! -L "$place" ] || fail "$place is a link to $(readlink "$place"), the environment of another checkout: remove the link (rm $place), and make makes one here" ;;
    esac
done

if [ ! -x "$venv/bin/python" ]; then
    found=
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python3.15 python}; do
        usable "$candidate" || continue
        found=$candidate
        # Debian's python3 has no venv until python3-venv is installed: then the next one may do.
        "$candidate" -m venv "$venv" >/dev/null 2>&1 && break
        rm -rf "$venv"
    done
    [ -n "$found" ] || fail "PyKafka needs Python 3.11 or later, which is not here${PYTHON:+ ($PYTHON is not)}: install it, or name it: make PYTHON=/path/to/python3"
    [ -x "$venv/bin/python" ] || fail "$found cannot make virtual environments: install its venv module (Debian: apt install python3-venv)"
fi

if [ "$extras" = docs ]; then
    echo "setup: installing the Python packages of [docs] into $venv, once"
    # The package stays out: beside another environment that is set up at the same time, two builds would write the same files.
    set -- $("$venv/bin/python" -c '
import configparser
config = configparser.ConfigParser()
config.read("setup.cfg")
lines = config["options"]["install_requires"] + config["options.extras_require"]["docs"]
print(*(line.replace(" ", "") for line in lines.splitlines() if line and not line.startswith("#")))')
else
    echo "setup: installing the Python packages of [$extras] into $venv, once (PySpark is large: some minutes)"
    # compat: the strict and the default way hide the package from type checkers.
    set -- --config-settings editable_mode=compat --editable ".[$extras]" ${CONSTRAINT:+"$CONSTRAINT"}
fi
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    fail "cannot install the Python packages: check the network (pip's own words stand above, all of them in $log) and run it again"
fi
touch "$stamp"
