"""What a redacted report says of the command: options that are known to be harmless, and nothing else."""

from __future__ import annotations

import pytest

from leakscope.report.redaction import withhold


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("leakscope audit --out=/a/b --n 4", "leakscope audit --out=… --n 4"),
        ("/usr/bin/leakscope attack /home/mallory/x.update.safetensors", "…"),
        ("leakscope attack eve.update.safetensors --truth eve --check", "leakscope attack … --truth … --check"),
        ("leakscope attack --combine eve.update bob.update", "leakscope attack --combine … …"),
        ("leakscope audit eve.hospital:client --plugin eve.mods --n 4", "leakscope audit … --plugin … --n 4"),
        ("leakscope audit --dataset femnist --w0 eve.st", "leakscope audit --dataset femnist --w0 …"),
        ("leakscope audit --dataset folder:eve --model eve:net", "leakscope audit --dataset … --model …"),
        ("leakscope audit --w0 pretrain:epochs=3 --model=vit", "leakscope audit --w0 pretrain:epochs=3 --model=vit"),
        ("leakscope tune sme --tune-on f0123_05 --report-on=f7", "leakscope tune … --tune-on … --report-on=…"),
        ("leakscope.audit(writer='f0123_05', n=4)", "…"),
        ("leakscope audit 'unclosed", "…"),
        ("", "…"),
    ],
)
def test_withheld_commands(command: str, shown: str) -> None:
    assert withhold(command) == shown
