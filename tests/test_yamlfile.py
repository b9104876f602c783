"""YAML as people write it: positions, the traps of YAML 1.1, and bounds."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.disks import tuner_unprivileged
from tuner.errors import SpecError
from tuner.spec import yamlfile


def faults(text: str) -> list[str]:
    try:
        return [str(fault) for fault in yamlfile.parse(text, "f.yaml").faults]
    except SpecError as error:
        return [str(fault) for fault in error.faults]


def file_faults(path: Path) -> list[str]:
    with pytest.raises(SpecError) as caught:
        yamlfile.read(path)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True), ("false", False), ("on", "on"), ("off", "off"), ("yes", "yes"), ("no", "no"), ("y", "y"),
        ("True", "True"), ("null", None), ("~", None), ("", None), ("12", 12), ("-3", -3), ("+4", 4),
        ("010", "010"), ("0x1F", "0x1F"), ("1_000", "1_000"), ("1.10", 1.1), ("1e-3", 0.001), ("1E5", 1e5),
        (".5", 0.5), ("1.", 1.0), (".inf", ".inf"), (".nan", ".nan"), ("1e999", "1e999"), ("0.11.0", "0.11.0"),
        ("08:00", "08:00"), ("1:30:00", "1:30:00"), ("2020-01-01", "2020-01-01"), ("'1'", "1"), ('"true"', "true"),
        ("!!str 1.10", "1.10"), ("9" * 19, "9" * 19), ("[1, a]", [1, "a"]), ("{on: off}", {"on": "off"}), ("=", "="),
    ],
)  # fmt: skip
def test_a_value_is_what_it_looks_like(written: str, meant: Any) -> None:
    read = yamlfile.parse(f"x: {written}\n")
    assert read.data == {"x": meant}
    assert type(read.data["x"]) is type(meant)
    assert read.faults == ()


def test_every_value_knows_its_line_and_how_it_was_written() -> None:
    read = yamlfile.parse("a:\n  - b: 1.10\n    c: '1.10'\n\n  - {d: x}\ne: &n\n  f: 2\ng: *n\n", "f.yaml")
    assert [read.line(place) for place in [("a",), ("a", 0, "b"), ("a", 1, "d"), ("g",)]] == [1, 2, 5, 8]
    assert read.line(("a", 1, "nothing", "here")) == 5
    assert read.line(("g", "f")) == 8
    assert (read.text(("a", 0, "b")), read.text(("a", 0, "c"))) == ("1.10", None)
    assert (read.at(("a", 1, "d")), read.at(("a", 7)), read.at(("e", "f", "g"))) == ("x", None, None)
    assert str(read.fault(("a", 1, "d"), "is wrong", "x", "mend it")) == "f.yaml:5: a[1].d: is wrong (got 'x'); mend it"


def test_an_alias_stands_for_the_same_value() -> None:
    assert yamlfile.parse("a: &n {b: 1}\nc: *n\n").data == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: a: the name is given twice (first in line 1); keep one of the two"),
        ("1.10: x\n", 'f.yaml:1: 1.10: a name must be text; quote it: "1.10"'),
        ("true: x\n", 'f.yaml:1: true: a name must be text; quote it: "true"'),
        ("? [a]\n: x\n", "f.yaml:1: a name must be text; quote it"),
        ("b: &x {c: 1}\na:\n  <<: *x\n", "f.yaml:3: a.<<: merge keys are not read; write the values out"),
        ("a: !!python/name:os.system x\n", "f.yaml:1: a: tags are not read; leave out '!!python/name:os.system'"),
        ("a: !mine {b: c}\n", "f.yaml:1: a: tags are not read; leave out '!mine'"),
        ("a: *b\n", "f.yaml:1: a: *b stands for nothing written before it; write &b"),
        ("a: &a [*a]\n", "f.yaml:1: a[0]: *a stands for nothing written before it; write &a"),
        ("a: 1\n---\nb: 1\n", "f.yaml:2: there is a second document in the file; "
         "keep one document a file, without ---"),
        ('a: "\\0"\n', "f.yaml:1: a: text holds a character that no command or file name can have"),
        ("a: 1\nb: \x07\n", "f.yaml:2: there is a character that YAML does not allow (got '\\x07')"),
        ("a:\n\tb: 1\n", "f.yaml:2: this is not YAML: found character that cannot start any token; "
         "indent with spaces, not tabs"),
        ("a: b: c\n", "f.yaml:1: this is not YAML: mapping values are not allowed in this context"),
        ("a: [1\n", "f.yaml:2: this is not YAML: did not find expected ',' or ']'"),
        ("[" * 60 + "]" * 60, "f.yaml:1: [0][0][0][0][0][0]: values are nested more than 50 deep"),
        ("[" * 100_000, "f.yaml:1: values are nested more than 50 deep"),
        ("- a\n" * 100_001, "f.yaml:100000: [99999]: there are more than 100,000 values; write fewer"),
    ],
    ids=range(18),
)  # fmt: skip
def test_what_cannot_be_meant_is_a_fault(text: str, fault: str) -> None:
    assert faults(text) == [fault]


def test_aliases_of_aliases_are_counted_before_they_are_followed() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    start = time.monotonic()
    assert faults("\n".join(levels)) == [
        "f.yaml:5: l4[7]: there are more than 100,000 values; write fewer, or alias (*name) less"
    ]
    assert time.monotonic() - start < 30


def test_several_faults_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("a: 1\na: 2\nb: !x 1\n2: c\n")
    assert len(file_faults(tmp_path / "f.yaml")) == 3


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    large, latin, fifo, loop = (tmp_path / name for name in ("large", "latin", "fifo", "loop"))
    large.write_text("a: b\n" * 2_000_000)
    latin.write_bytes("a: 1\nb: é\n".encode("latin-1"))
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    assert file_faults(large) == [
        f"{large}: the file is too large to be read as YAML; "
        "the most is 1,000,000 bytes; keep data sets and results in files of their own"
    ]
    assert file_faults(latin) == [f"{latin}:2: the file is not text in UTF-8; save it as UTF-8"]
    assert file_faults(fifo) == [f"{fifo}: it is not a regular file"]
    assert file_faults(loop) == [f"{loop}: the link leads in a circle"]
    assert file_faults(tmp_path) == [f"{tmp_path}: it is a folder, not a file"]
    assert file_faults(tmp_path / "no") == [f"{tmp_path / 'no'}: there is no such file"]
    assert file_faults(tmp_path / ("n" * 300))[0].endswith("the name is too long for a file")
    assert file_faults(Path("a\0b"))[0].endswith("this is not the name of a file")


def test_a_file_without_permission_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a: 1\n")
    file.chmod(0)
    done = tuner_unprivileged("plan", file)
    assert done.returncode == 2
    assert done.stderr == f"tuner: error: {file}: there is no permission to read it\n"


def test_an_empty_file_reads_as_nothing_and_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert yamlfile.read(tmp_path / "empty").data is None
    assert yamlfile.read(tmp_path / "bom").data == {"a": 1, "b": 2}
