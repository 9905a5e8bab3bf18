# SPDX-License-Identifier: Apache-2.0
"""A record that was changed in any byte is never read as a record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import builders
from gpubench import checksum, records
from gpubench.records import Environment, Window
from gpubench.scheduler import ledger
from gpubench.scheduler.ledger import AttemptRecord

WINDOW = Window(rank=1, index=3, steps=11, nanoseconds=1_002_243_764, warm_up=False)
LINE = records.line(WINDOW).encode()


def test_a_sealed_record_is_json_with_one_more_member_and_comes_back() -> None:
    assert json.loads(LINE) == {**WINDOW.to_wire(), "checksum": json.loads(LINE)["checksum"]}
    assert LINE.endswith(b"}")
    assert checksum.opened(LINE).decode() == WINDOW.to_json()
    assert records.read_line(LINE) == WINDOW


def test_a_change_of_any_byte_into_any_other_is_found() -> None:
    for place in range(len(LINE)):
        for byte in set(range(256)) - {LINE[place]}:
            with pytest.raises(checksum.Damaged):
                records.read_line(LINE[:place] + bytes([byte]) + LINE[place + 1 :])


@given(st.data())
def test_what_is_cut_out_or_put_in_is_found(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(LINE)))
    end = data.draw(st.integers(start, len(LINE)))
    changed = LINE[:start] + data.draw(st.binary(max_size=3)) + LINE[end:]
    if changed != LINE:
        with pytest.raises(checksum.Damaged):
            records.read_line(changed)


def test_members_that_changed_places_and_white_space_are_found() -> None:
    swapped = json.dumps(dict(reversed(json.loads(LINE).items())), separators=(",", ":"))
    for changed in (swapped.encode(), json.dumps(json.loads(LINE)).encode(), LINE + b" "):
        with pytest.raises(checksum.Damaged):
            records.read_line(changed)


@pytest.mark.parametrize("name", ["steps", "nanoseconds"])
def test_a_window_of_nothing_is_no_window_though_its_checksum_is_right(name: str) -> None:
    line = checksum.seal(json.dumps({**WINDOW.to_wire(), name: 0}, sort_keys=True, separators=(",", ":")))
    with pytest.raises(checksum.Damaged, match=f"{name}.*greater than 0"):
        records.read_line(line.encode())


def test_a_record_whose_checksum_was_taken_away_is_found() -> None:
    with pytest.raises(checksum.Damaged, match="has no checksum"):
        records.read_line(WINDOW.to_json().encode())


def test_a_text_that_is_nested_too_deeply_is_no_record() -> None:
    for text in (b"[" * 100_000, b'{"kind":' * 100_000):
        with pytest.raises(checksum.Damaged):
            records.read_line(text)


def test_what_another_version_wrote_is_refused_with_both_versions() -> None:
    said = "schemaVersion.*it is 2, and this gpubench reads 1: use the gpubench that wrote it"
    other = {"schema_version": 2}
    with pytest.raises(checksum.Damaged, match=said):
        records.read_line(records.line(WINDOW.model_copy(update=other)).encode())
    with pytest.raises(records.UnreadableMessage, match=said):
        records.read_ending(builders.message(builders.result().model_copy(update=other)))
    with pytest.raises(ValueError, match="it is 2, and this gpubench reads 1"):
        AttemptRecord.from_text(builders.attempt().model_copy(update=other).to_text())
    with pytest.raises(ValueError, match="has no checksum"):
        AttemptRecord.from_text(builders.attempt().to_json())


def test_a_kind_that_is_not_known_is_passed_over_but_not_in_silence() -> None:
    line = checksum.seal('{"kind":"weather","schemaVersion":1}').encode()
    assert records.read_line(line) is None
    assert records.read_log(LINE + b"\n" + line + b"\n").unknown == 1
    with pytest.raises(checksum.Damaged):
        records.read_line(line.replace(b"weather", b"wether"))


def test_every_line_of_a_log_is_a_record_or_a_problem() -> None:
    found = records.read_log(LINE + b"\nTraceback\n\n" + LINE[:-1] + b"\n" + LINE)
    assert found.of_kind(Window) == (WINDOW,)
    assert found.of_kind(Environment) == ()
    assert [number for number, _ in found.problems] == [2, 3, 4, 5]
    assert "has no end" in found.problems[-1][1]


def test_what_cannot_carry_a_checksum_is_refused() -> None:
    for text in ("", "{}", "[1]", '"text"'):
        with pytest.raises(ValueError, match="JSON object"):
            checksum.seal(text)


def test_a_ledger_with_a_changed_entry_is_not_read() -> None:
    (entries,) = [ledger.to_entries([builders.attempt()])]
    assert ledger.from_entries([entries]).records == (builders.attempt(),)
    changed = {key: text.replace('"attempt":1', '"attempt":2') for key, text in entries.items()}
    with pytest.raises(ValueError, match="it was changed"):
        ledger.from_entries([changed])


def test_a_termination_message_that_was_changed_is_no_record() -> None:
    message = builders.message(builders.result())
    with pytest.raises(records.UnreadableMessage, match="its checksum is"):
        records.read_ending(message.replace('"steps":100', '"steps":101'))
