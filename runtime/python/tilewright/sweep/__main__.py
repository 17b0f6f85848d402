# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys

try:
    from .cli import main

    status = main(sys.argv[1:])
except KeyboardInterrupt:  # before the command line handles it
    status = 130
sys.exit(status)
