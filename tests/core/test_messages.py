# SPDX-License-Identifier: Apache-2.0
"""What a benchmark says while it waits: each message once, short, with what can be done.

That nothing else is said is looked at wherever a test of the scheduler takes a step (`world.decide`).
"""

import pytest

import world
from gpubench.api import messages, reference
from gpubench.api.condition import Condition
from gpubench.api.messages import Message

WORDS_MAX = 25
#: What goes on by itself.
WAITS_WELL = {messages.NODE_COMING, messages.WAITING_FOR_QUEUE, messages.QUEUE_EVICTED}


@pytest.mark.parametrize("message", messages.CATALOGUE, ids=lambda one: one.sentence)
def test_a_message_is_short_and_says_what_can_be_done(message: Message) -> None:
    assert bool(message.remedy) == (message not in WAITS_WELL)
    assert max(len(text.split()) for text in (message.sentence, message.remedy)) <= WORDS_MAX
    assert f"| `{message.reason}` | " in reference.messages_page()


def test_what_others_said_stands_between_the_sentence_and_the_remedy() -> None:
    found = messages.STOCK_OUT.of("karpenter: none", pod="p", then="scheduler: 0/5")
    assert found.reason == "StockOut"
    assert found.message.startswith("pod p has no node, as the provider has none: karpenter: none; it is asked again")
    assert found.message.endswith("; scheduler: 0/5")
    assert messages.WAITING_FOR_QUEUE.of("", job="j", queue="q").message == "Job j waits in queue q"


def test_a_condition_that_no_message_has_is_found() -> None:
    said = {"type": "GangPending", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for reason, message in (("Odd", "pod p has no node"), ("StockOut", "an invented sentence")):
        with pytest.raises(AssertionError):
            world.check_words([Condition.model_validate({**said, "reason": reason, "message": message})])
