"""Secrets in what is kept: texts, settings, whole outcomes."""

from __future__ import annotations

import pytest

from tuner.redaction import known, redacted, scrubbed, without_secrets
from tuner.trial import Effective, Failure, KeyVerdict, Outcome


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("HF_TOKEN=abcdef123 vllm serve", "HF_TOKEN=*** vllm serve"),
        ("--api-key topsecret --port 1", "--api-key *** --port 1"),
        ("--api-key=topsecret", "--api-key=***"),
        (
            "non-default args: {'api_key': ['topsecret'], 'port': 1}",
            "non-default args: {'api_key': ['***'], 'port': 1}",
        ),
        ("ServerArgs(api_key='topsecret', tp_size=8)", "ServerArgs(api_key='***', tp_size=8)"),
        ("ServerArgs(api_key=None, admin_api_key=None)", "ServerArgs(api_key=None, admin_api_key=None)"),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer ***"),
        ("https://me:pass@hub/x", "https://***@hub/x"),
        ("token hf_ABCDEFGHIJKL is not valid", "token *** is not valid"),
        ("WANDB_API_KEY: aaaa-bbbb", "WANDB_API_KEY: ***"),
        ('export MY_TOKEN="abcdefgh"', 'export MY_TOKEN="***"'),
        ("Decode batch, #token: 3636, token usage: 0.00, max_total_num_tokens=37765", None),
        ("eos_token='<|im_end|>', num_speculative_tokens=1, cu_seqlens_key: 1234567", None),
        ('HF_TOKEN="${HF_TOKEN:?}" vllm serve', None),
        ("the api key is missing, the token was refused", None),
    ],
)
def test_texts(text: str, left: str | None) -> None:
    assert redacted(text) == (text if left is None else left)


def test_known_values_are_found_in_any_form() -> None:
    values = known({"HF_TOKEN": "no-form-at-all", "PATH": "/usr/bin:/bin", "A_TOKEN": "1"})
    assert values == {"no-form-at-all"}
    assert redacted("said no-form-at-all twice: no-form-at-all", values) == "said *** twice: ***"


def test_settings_that_are_secrets_are_left_out() -> None:
    assert without_secrets({"api-key": "a", "server_args.hf_token": "b", "tp-size": 8}) == {"tp-size": 8}


def test_a_whole_outcome() -> None:
    outcome = Outcome(
        failure=Failure("crash", "lost with topsecret", log="a\ntopsecret", line=3),
        effective=Effective({"a": ["topsecret", 1]}, verdicts=(KeyVerdict("a", "topsecret", None, "unknown"),)),
        comparisons={"w": Failure("crash", "topsecret")},
        command="vllm serve --x topsecret",
        notes=("topsecret",),
    )
    clean = scrubbed(outcome, {"topsecret"})
    assert "topsecret" not in repr(clean)
    assert clean.failure is not None
    assert (clean.failure.line, clean.failure.message) == (3, "lost with ***")
    assert clean.effective is not None
    assert clean.effective.values == {"a": ["***", 1]}
    assert isinstance(clean.notes, tuple)
