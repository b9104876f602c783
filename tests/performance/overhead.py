"""What the tuner itself costs: `python tests/performance/overhead.py`. Prints figures, asserts nothing.

- `tuner --help`: wall and CPU seconds of the whole process, median of 9.
- decide: CPU milliseconds of one decision at 12, 100 and 1000 trials, median of 9, beside Optuna's TPE sampler asked
  for one point at as many trials, interleaved.
- overhead of a trial: wall time of a live study over simulated engines less what its trials spent in launch, ready,
  effective, warm-up, benchmark and stop, for each trial.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import optuna

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.live import write_study  # noqa: E402
from tuner.objective import NORMAL, Objective  # noqa: E402
from tuner.search.decide import decide  # noqa: E402
from tuner.space import Changes, Option, SearchSpace, Stage  # noqa: E402
from tuner.trial import Outcome, State, Trial  # noqa: E402

ROUNDS = 9


def main() -> None:
    help_time()
    for count in (12, 100, 1000):
        decision_time(count)
    trial_overhead()


def help_time() -> None:
    walls, cpus = [], []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tuner", "--help"], check=True, capture_output=True, cwd=ROOT)
        walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"tuner --help: {median(walls):.3f} s wall, {median(cpus):.3f} s CPU (median of {ROUNDS})")


def decision_time(count: int) -> None:
    space, trials = long_history(count)
    study = tpe_history(count)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        began = time.process_time()
        decide(space, trials, NORMAL, Objective())
        ours.append(time.process_time() - began)
        began = time.process_time()
        study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
        theirs.append(time.process_time() - began)
    print(
        f"decide at {count} trials: {1000 * median(ours):.1f} ms CPU; "
        f"Optuna's TPE for one point: {1000 * median(theirs):.1f} ms; ratio {median(ours) / median(theirs):.2f}"
    )


def long_history(count: int) -> tuple[SearchSpace, list[Trial]]:
    """One engine, as many stages of eleven options as it takes; every trial but the last measured."""
    stages = [Stage("engine", (Option("vllm", {"vllm": Changes(args={"tensor-parallel-size": 8})}),))]
    for number in range(count // 10 + 1):
        options = [Option(f"o{i}", {"vllm": Changes(args={f"flag-{number}": i})} if i else {}) for i in range(11)]
        stages.append(Stage(f"stage-{number}", tuple(options)))
    space = SearchSpace(tuple(stages), engines=("vllm",))
    trials: list[Trial] = []
    for stage in stages:
        for option in stage.options if stage.name == "engine" else stage.options[1:]:
            if len(trials) == count:
                return space, trials
            configuration = space.baseline.having(**{stage.name: option.name})
            value = 1000.0 if stage.name == "engine" else 900.0 + len(trials) % 7
            repeats = (value, value * 1.01, value * 0.99)
            trials.append(
                Trial(len(trials), stage.name, configuration, State.MEASURED, value, repeats,
                      base=space.baseline, outcome=Outcome())
            )  # fmt: skip
    return space, trials


def tpe_history(count: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    domain = {"x": optuna.distributions.FloatDistribution(0, 1)}
    study.add_trials(
        [
            optuna.trial.create_trial(params={"x": (i * 0.37) % 1}, distributions=domain, value=float(i % 13))
            for i in range(count)
        ]
    )
    return study


def trial_overhead() -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = write_study(Path(folder) / "study", method="normal")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "-m", "tuner", "run", str(study)], capture_output=True, text=True, env=environment
        )
        assert run.returncode == 0, run.stderr
        spent, count = 0.0, 0
        for path in sorted((study / "trials").glob("*/outcome.json")):
            spent += sum(json.loads(path.read_text())["outcome"]["timings"].values())
            count += 1
        whole = seconds_between_trials(study)
    print(f"overhead of the tuner: {(whole - spent) / count:.3f} s a trial ({count} trials, {whole:.1f} s in all)")


def seconds_between_trials(study: Path) -> float:
    """From the first trial's start to the last one's end, by the database."""
    url = f"sqlite:///{study}/study.db"
    (name,) = optuna.get_all_study_names(url)
    trials = optuna.load_study(study_name=name, storage=url).trials
    ends = [trial.datetime_complete for trial in trials if trial.datetime_complete]
    starts = [trial.datetime_start for trial in trials if trial.datetime_start]
    return (max(ends) - min(starts)).total_seconds()


if __name__ == "__main__":
    main()
