# SPDX-License-Identifier: Apache-2.0
"""The way to an API server, for the operator and the command line. It imports the core and none of the edges."""
