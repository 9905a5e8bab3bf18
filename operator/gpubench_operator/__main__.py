# SPDX-License-Identifier: Apache-2.0
"""`python -m gpubench_operator` runs the operator."""

import sys

from gpubench_operator import main

if __name__ == "__main__":
    sys.exit(main.main())
