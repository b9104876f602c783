"""The expression language of `rules:`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.rules import RuleError, holds, rule

VALUES = {"max-num-seqs": 256, "max_num_batched_tokens": 2048, "tp": 8, "dtype": "fp8", "dp-attention": True, "zero": 0}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("max_num_seqs <= max-num-batched-tokens", True),
        ("max-num-seqs > max_num_batched_tokens", False),
        ("1 <= tp <= 8", True),
        ("1 <= tp < 8", False),
        ("tp - 1 == 7 and tp+1 == 9", True),
        ("tp*2 == 16 and tp/16 == 0.5 and tp//3 == 2 and tp%3 == 2", True),
        ("not tp == 8", False),
        ("dtype == 'fp8' and dtype != \"bf16\"", True),
        ("dp-attention == true", True),
        ("not dp_attention or tp > 8", False),
        ("(tp + 2) * 2 == 20", True),
        ("-tp == -8 and tp > -1e3", True),
        ("dp-attention", True),
    ],
)
def test_a_rule_is_true_or_false_of_the_values(text: str, answer: bool) -> None:
    assert holds(text, VALUES) is answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("tp <= unknown", True),
        ("not unknown", True),
        ("unknown > 1 and tp > 100", False),
        ("unknown > 1 or tp > 100", True),
        ("tp > unknown + 1", True),
        ("tp / zero > 1", True),
        ("tp % zero == 0", True),
        ("dtype < 3", True),
        ("dtype * 3 == 'fp8fp8fp8'", True),
    ],
)
def test_what_cannot_be_told_holds(text: str, answer: bool) -> None:
    assert holds(text, VALUES) is answer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__import__('os').system('x') == 0", "has something that rules do not know at \".system('x') == 0\""),
        ("f(tp) > 1", "is not made of comparisons, + - * / // %, and, or, not, names and numbers alone"),
        ("tp ** 9 > 1", "is not an expression"),
        ("[1] == 1", "has something that rules do not know at '[1] == 1'"),
        ("tp = 8", "has something that rules do not know at '= 8'"),
        ("x if tp else y", "is not an expression"),
        ("lambda: 1", "has something that rules do not know at ': 1'"),
        ("tp in tp", "is not an expression"),
        ("tp is true", "is not an expression"),
        ("tp + 1", "must be true or false, such as a comparison"),
        ("3", "must be true or false, such as a comparison"),
        ("", "is not an expression"),
        ("((((", "is not an expression"),
        ("tp >", "is not an expression"),
        ("tp\\\n> 1", "has something that rules do not know at '\\\\\\n> 1'"),
        ("tp > 12345678901234567890", "has a number of more than 18 characters at '12345678901234567890'"),
        ("tp > " + "-" * 300 + "1", "a rule has at most 100 words and signs"),
        ("tp > " + "1" * 600, "a rule has at most 500 characters"),
        ("tp > f'{tp}'", "is not an expression"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(RuleError) as caught:
        rule(text)
    assert str(caught.value) == why


def test_the_names_of_a_rule_are_told_as_written() -> None:
    assert rule("a-b <= c_d and not e-1 > a-b").names == ("a-b", "c_d", "e", "a-b")


@given(st.text(alphabet="ab-_ 01.()<>=!+*/%'\"andornt\\\n\t:[]{}é\0", max_size=60) | st.text(max_size=600))
def test_any_text_is_a_rule_or_a_rule_error(text: str) -> None:
    try:
        answer = holds(text, {"a": 1, "b": 2.5, "n": "text", "t": None})
    except RuleError:
        return
    assert answer in (True, False)
