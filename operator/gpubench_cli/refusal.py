# SPDX-License-Identifier: Apache-2.0
"""What ends a command early, as one sentence for a person. Never a traceback: that is for our own mistakes."""

EXIT_DONE = 0
EXIT_STUDY_FAILED = 1
EXIT_BAD_INPUT = 2  # also: no cluster, no permission; nothing was tried
EXIT_SIGNAL = 128  # plus the signal's number, as shells have it


class Refusal(Exception):
    """Bad input, or a place that does not answer: the sentences go to stderr, the exit code is 2."""

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class Stopped(Exception):
    """A signal asked for the end, and everything has been put in order."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.exit_code = EXIT_SIGNAL + signal_number
