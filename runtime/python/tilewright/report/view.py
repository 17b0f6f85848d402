# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python3 -m tilewright.report.view FILE...`: a page on the loopback interface."""
from __future__ import annotations

import sys

from .cli import view

sys.exit(view(sys.argv[1:]))
