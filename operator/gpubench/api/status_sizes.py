# SPDX-License-Identifier: Apache-2.0
"""How long the texts of a status, and of an analysis, may be."""

# etcd takes at most 1.5 MiB, the spec included. Sentences are cut to as many bytes; the schema counts characters.
REASON_MAX = 400
WARNING_MAX = 180
WARNINGS_MAX = 3  # reasons of a point; the analysis has all warnings
WARNING_FIGURES_MAX = 4
FIGURE_NAME_MAX = 10
NODE_MAX = 63
DATA_PATH_MAX = 48
ENVIRONMENTS_SHOWN_MAX = 8
FACT_MAX = 24
FACT_NAME_MAX = 48
DIGEST_MAX = 71  # sha256: and 64 digits
COMPARISON_MAX = 512
SOURCE_MAX = 96  # of a price; the plan has all of it
SENTENCE_MAX = 320
CLOCK_MAX = 320
NODES_SENTENCE_MAX = 1024  # eight names of nodes are in it
ANSWER_SHOWN_MAX = 480
POINT_KEY_MAX = 320
POINT_SUMMARY_MAX = 200
BEST_POOL_MAX = 96  # a name, and what must be known of it
GOALS_OF_A_WORKLOAD_MAX = 4  # each result has all of them
