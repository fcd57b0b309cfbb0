#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# weka.fs and weka.torch, as far as fsspec and torch are installed.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
. test/python/appliances.sh

PYTHONPATH=$(realpath "$BUILD/release/python")
export PYTHONPATH
pytest_lines test/python/more
finish
