# SPDX-License-Identifier: Apache-2.0
"""The exception of a rank that knows what is wrong."""

from gpubench.exitcodes import ExitCode


class RankError(Exception):
    """The code and the sentence are final: the launcher passes them on as they are."""

    def __init__(self, exit_code: ExitCode, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence
