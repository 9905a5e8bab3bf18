# SPDX-License-Identifier: Apache-2.0
"""What is shown does nothing."""

import unicodedata

from gpubench.sanitize import one_line, printable

#: Clears the screen, sets a title, writes over its line, rings, and reads from right to left.
HOSTILE = "a\x1b[2J\x1b]0;owned\x07b\rc\x9b31md\u202ee\u2028f\x00g\x7fh"


def test_no_character_that_does_something_is_left() -> None:
    shown = printable(HOSTILE)
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Zl", "Zp")]
    assert "\u202e" not in shown
    assert len(shown) == len(HOSTILE)
    assert [one for one in shown if one.isalpha()] == [one for one in HOSTILE if one.isalpha()]


def test_ordinary_text_stays_as_it_is() -> None:
    text = "A100-40GB, 3 × 2 = 6 – 'Größe', Ελλάδα, 日本, السعر, 🙂\n\tnext line"
    assert printable(text) == text


def test_one_line_stays_one_line() -> None:
    assert one_line("a\nb\tc\r") == "a b c\N{REPLACEMENT CHARACTER}"
