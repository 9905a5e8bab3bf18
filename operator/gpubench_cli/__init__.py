# SPDX-License-Identifier: Apache-2.0
"""The person's edge: terminal, files, local runs. It imports the core and neither of the other edges."""
