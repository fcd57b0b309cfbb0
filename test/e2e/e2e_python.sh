#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The Python package, against two appliances: shm and tcp; tls.  The tests are in test/python/.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
. test/python/appliances.sh

PYTHONPATH=$(realpath "$BUILD/release/python")
export PYTHONPATH
pytest_lines test/python/core
finish
