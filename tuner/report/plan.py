"""Every launch a study may try: `decide` on made-up outcomes. Pure, starts nothing.

Where the possible courses of the study are few, all of them are walked; else a fixed sample, and the text says so.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.engines import engine
from tuner.search import Decision, Done, Evaluate
from tuner.search.decide import decide
from tuner.spec import StudySpec
from tuner.trial import Configuration, Outcome, Slot, State, Trial, shell

_MOST_COURSES = 96
_MOST_TRIALS = 1000
# Minutes from launch to gone of one trial with a large model, where nothing has been measured: a wide guess.
_MINUTES = (4.0, 20.0)


@dataclass(frozen=True)
class Course:
    """A made-up world: what each option adds to the objective, as a factor by (stage, option)."""

    factors: Mapping[tuple[str, str], float]

    def value(self, configuration: Configuration) -> float:
        value = 1000.0
        for name, option in configuration.items():
            value *= self.factors.get((name, str(option)), 1.0)
        return value


@dataclass(frozen=True)
class Plan:
    """Launch commands in the order in which they may come, with the phase; how many trials a course takes."""

    commands: tuple[tuple[str, str], ...]
    fewest: int
    most: int
    complete: bool


def plan(spec: StudySpec, minutes: tuple[float, float] = _MINUTES) -> str:
    """The plan as text: one line a launch, then trials, hours and GPU-hours as a range."""
    made = possible(spec)
    gpus = spec.node.simulated or (len(spec.node.gpus) if isinstance(spec.node.gpus, tuple) else spec.node.gpus)
    low, high = made.fewest * minutes[0] / 60, made.most * minutes[1] / 60
    compared = 0 if spec.method.confirm or not spec.compare_on else 2
    lines = [f"{number:3d}  [{phase}]  {command}" for number, (phase, command) in enumerate(made.commands, 1)]
    if not made.complete:
        lines.append(f"     (of {_MOST_COURSES} sampled courses of the study; further combinations are possible)")
    lines += [
        "",
        f"{made.fewest} to {made.most} trials of these {len(made.commands)} launches (method {spec.method.name})"
        + (f", then {compared} launches to compare on {', '.join(spec.compare_on)}" if compared else "")
        + ("; two more in each stage whose best gain is not plain" if spec.method.noise else ""),
        f"{low:.1f} to {high:.1f} hours at {minutes[0]:g} to {minutes[1]:g} minutes a launch"
        + (
            f", {low * gpus:.0f} to {high * gpus:.0f} GPU-hours on {gpus} GPUs"
            if isinstance(gpus, int) and gpus
            else ""
        ),
    ]
    return "\n".join(lines)


def possible(spec: StudySpec) -> Plan:
    """Walk the courses and collect every launch."""
    courses, complete = _courses(spec)
    first: dict[str, tuple[str, Configuration]] = {}
    lengths = []
    for course in courses:
        trials = _walk(spec, course)
        lengths.append(len(trials))
        for trial in trials:
            first.setdefault(spec.space.identity(trial.configuration), (trial.phase, trial.configuration))
    order = {stage.name: index for index, stage in enumerate(spec.space.stages)}
    found = sorted(first.values(), key=lambda pair: order.get(pair[0], len(order)))
    commands = tuple((phase, command(spec, configuration)) for phase, configuration in found)
    return Plan(commands, min(lengths), max(lengths), complete)


def command(spec: StudySpec, configuration: Configuration) -> str:
    """The launch command of a configuration in shell form, at its engine's version."""
    settings = spec.space.settings(configuration)
    adapter = engine(settings.engine, spec.engines[settings.engine].version)
    launch = adapter.launch(settings, Slot(port=8000, folder=spec.folder, host="0.0.0.0"), reading=False)
    return shell(launch.argv, launch.env)


def _courses(spec: StudySpec) -> tuple[list[Course], bool]:
    """Worlds in which any of the engines is the best and any set of the other options helps."""
    first, *others = spec.space.stages
    engines = [option.name for option in first.options]
    options = [(stage.name, option.name) for stage in others for option in stage.options[1:]]
    total = len(engines) * 2 ** len(options)
    numeric = any(stage.parameters for stage in spec.space.stages)
    if total <= _MOST_COURSES:
        return [_course(first.name, engines, best, helped) for best, helped in _all(engines, options)], not numeric
    draw = random.Random(0)
    sampled = [
        _course(first.name, engines, draw.choice(engines), {o: draw.random() < 0.5 for o in options})
        for _ in range(_MOST_COURSES)
    ]
    return sampled, False


def _all(engines: list[str], options: list[tuple[str, str]]) -> Iterator[tuple[str, dict[tuple[str, str], bool]]]:
    for best in engines:
        for helps in itertools.product((False, True), repeat=len(options)):
            yield best, dict(zip(options, helps, strict=True))


def _course(stage: str, engines: list[str], best: str, helped: Mapping[tuple[str, str], bool]) -> Course:
    factors = {(stage, name): 2.0 if name == best else 1.0 - index / 100 for index, name in enumerate(engines)}
    factors |= {option: 1.2 if helps else 0.8 for option, helps in helped.items()}
    return Course(factors)


def _walk(spec: StudySpec, course: Course) -> list[Trial]:
    """The trials of one course, pretended."""
    trials: list[Trial] = []
    decision: Decision = decide(spec.space, trials, spec.method, spec.objective)
    while isinstance(decision, Evaluate) and len(trials) < _MOST_TRIALS:
        value = course.value(decision.configuration)
        value = value if spec.objective.maximize else 1 / value
        # Repeats that differ a little, as real ones do, so that a method that minds noise knows some.
        repeats = tuple(value * factor for factor in (0.999, 1.0, 1.001))[: max(1, spec.benchmark.repeats)]
        trials.append(
            Trial(len(trials), decision.phase, decision.configuration, State.MEASURED, value, repeats,
                  base=decision.base, outcome=Outcome())
        )  # fmt: skip
        decision = decide(spec.space, trials, spec.method, spec.objective)
    assert isinstance(decision, Done) or len(trials) >= _MOST_TRIALS
    return trials
