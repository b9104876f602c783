"""Every launch a study may try: `decide` on made-up outcomes. Pure, starts nothing.

Where the possible courses of the study are few, all of them are walked; else a fixed sample, and the text says so.
How many trials it takes is not sampled: `tuner.report.bounds` counts it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.engines import engine
from tuner.report import formats
from tuner.report.bounds import Bounds, bounds
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
    """Launch commands in the order in which they may come, with the phase; how many trials the study may take."""

    commands: tuple[tuple[str, str], ...]
    bounds: Bounds
    complete: bool


def plan(spec: StudySpec, minutes: tuple[float, float] = _MINUTES) -> str:
    """The plan as text: one line a launch, then trials, hours and GPU-hours as a range."""
    made = possible(spec)
    lines = [f"{number:3d}  [{phase}]  {command}" for number, (phase, command) in enumerate(made.commands, 1)]
    if not made.complete:
        lines.append(f"     (of {_MOST_COURSES} sampled courses of the study; further combinations are possible)")
    return "\n".join([*lines, "", *_trials(spec, made), *_duration(spec, made, minutes)])


def _trials(spec: StudySpec, made: Plan) -> Iterator[str]:
    within, method = made.bounds, f"method {formats.method(spec.method)}"
    yield f"{within.fewest} to {within.most} trials of these {len(made.commands)} launches ({method})"
    if within.once < within.most:
        yield (
            f"  up to {within.once} where every gain is plain; the others launch again what leads by less than the "
            "noise lets one tell"
        )
    if spec.method.confirm:
        times = "once" if spec.method.confirm == 1 else f"{spec.method.confirm} times"
        yield f"  confirming launches are counted: each finalist and the baseline {times}"
    elif spec.compare_on:
        yield f"  then up to 2 launches more to compare on {', '.join(spec.compare_on)}"
    yield "  not counted: launches tried again after a failure that is not the configuration's (a port taken, ...)"


def _duration(spec: StudySpec, made: Plan, minutes: tuple[float, float]) -> Iterator[str]:
    if is_simulated(spec):
        yield "simulated: stand-in engines, seconds a launch, no GPU"
        return
    gpus = len(spec.node.gpus) if isinstance(spec.node.gpus, tuple) else spec.node.gpus
    low, high = made.bounds.fewest * minutes[0] / 60, made.bounds.most * minutes[1] / 60
    used = f", {low * gpus:.0f} to {high * gpus:.0f} GPU-hours on {gpus} GPUs" if isinstance(gpus, int) and gpus else ""
    yield f"{low:.1f} to {high:.1f} hours at {minutes[0]:g} to {minutes[1]:g} minutes a launch (a guess){used}"


def is_simulated(spec: StudySpec) -> bool:
    """Whether stand-ins are launched in place of engines."""
    options = (each.launcher_options for each in spec.engines.values())
    return bool(spec.node.simulated) or any(each.get("simulated") for each in options)


def possible(spec: StudySpec) -> Plan:
    """Walk the courses and collect every launch. Its repeats change no course and are counted by `bounds`."""
    courses, complete = _courses(spec)
    first: dict[str, tuple[str, Configuration]] = {}
    for course in courses:
        for trial in _walk(spec, course):
            first.setdefault(spec.space.identity(trial.configuration), (trial.phase, trial.configuration))
    order = {stage.name: index for index, stage in enumerate(spec.space.stages)}
    found = sorted(first.values(), key=lambda pair: order.get(pair[0], len(order)))
    commands = tuple((phase, command(spec, configuration)) for phase, configuration in found)
    return Plan(commands, bounds(spec.space, spec.method), complete)


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
