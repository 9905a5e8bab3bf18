# SPDX-License-Identifier: Apache-2.0
"""The training edge: what runs in a gang's pods. See jobs/README.md for the way of a gang.

May not happen here: an import of the other edges; an import of Horovod outside `engines`; an import of TensorFlow by
the launcher; a duration from a clock other than `clock`'s.
"""
