# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys

from .cli import report

sys.exit(report(sys.argv[1:]))
