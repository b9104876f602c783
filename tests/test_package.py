"""What is installed: the command, the search spaces, from a wheel and from a checkout."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tuner.locate import shipped

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_has_everything_and_its_command_answers(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    spaces = {path.name for path in (ROOT / "search_spaces").glob("*.yaml")}
    assert {f"tuner/search_spaces/{name}" for name in spaces} <= set(names)
    assert "tuner/py.typed" in names
    assert "tuner/testing/engine.py" in names
    assert not [name for name in names if name.startswith(("tests/", "studies/"))]
    environment = tmp_path / "env"
    venv.create(environment, system_site_packages=False, with_pip=True)
    program = environment / "bin" / "python"
    subprocess.run([program, "-m", "pip", "install", "-q", "--no-deps", wheel], check=True, timeout=300)
    locate = "from tuner.locate import shipped; print(*sorted(shipped()))"
    done = subprocess.run([program, "-c", locate], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == sorted(Path(name).stem for name in spaces)
    assert (environment / "bin" / "tuner").exists()


def test_a_checkout_finds_the_search_spaces_beside_the_package() -> None:
    assert {"deepseek-r1-h200", "quickstart"} <= shipped().keys()
    assert all(path.is_file() for path in shipped().values())


def test_python_m_tuner_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tuner", "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout.strip() == "0.1.0"
