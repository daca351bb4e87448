"""What the report says of the attacker's knowledge."""

from __future__ import annotations

import pytest

from leakscope.report.wording import describe_start


@pytest.mark.parametrize(
    ("w0", "words"),
    [
        ("", "untrained weights"),
        ("fresh", "untrained weights"),
        ("pretrain:epochs=3", "weights trained before (pretrain:epochs=3)"),
        ("own", "the weights that its model is built with"),
        ("recorded", "the weights in the update file"),
        ("/home/eve/round-7.safetensors", "weights from round-7.safetensors"),
    ],
)
def test_every_start_is_said_in_words(w0: str, words: str) -> None:
    assert describe_start(w0) == words
