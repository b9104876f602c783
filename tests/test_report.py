"""What people read: facts, terminal summary, Markdown and HTML, from the published study and changes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.histories import published, scaled, study
from tests.spaces import Measure, run
from tuner.history import Caution, Comparison, History
from tuner.objective import NORMAL, PUBLISHED, Method, Objective
from tuner.report import formats
from tuner.report.html import html
from tuner.report.markdown import markdown
from tuner.report.status import as_json, status_text
from tuner.report.summary import best_so_far, summarise
from tuner.report.text import terminal
from tuner.search import Evaluate, Wait
from tuner.trial import Configuration, Effective, Failure, Measurement, Outcome, State

FORMS = [terminal, markdown, html]
OOM = Failure("out-of-memory", "CUDA out of memory")


@pytest.fixture(scope="module")
def history() -> History:
    return published()


def test_headline_of_the_published_study(history: History) -> None:
    head = summarise(history).headline
    assert (head.trial, head.value, head.baseline, head.confirmed) == (3, 7143.30, 5482.59, False)
    assert formats.percent(head.gain) == "+30.3 %"
    assert head.command.startswith("python3 -m sglang.launch_server")
    assert head.command.endswith("--enable-dp-attention")


def test_options_summary_of_the_published_study(history: History) -> None:
    decided = [(d.phase, d.tried, d.kept, formats.percent(d.gain)) for d in summarise(history).decided]
    assert decided == [
        ("engine", ("vllm", "sglang", "tensorrt-llm"), "sglang", "+21.0 %"),
        ("parallelism", ("tp+dp-attention",), "tp+dp-attention", "+7.6 %"),
        ("torch.compile", ("on",), "off", "-"),
        ("speculative decoding", ("MTP",), "none", "-"),
    ]
    assert [d.noise for d in summarise(history).decided] == ["unknown", "unknown", "below", "below"]
    rejected = [(d.rejected, formats.percent(d.rejected_gain)) for d in summarise(history).decided]
    assert rejected == [("tensorrt-llm", "-38.2 %"), ("", "-"), ("on", "-4.7 %"), ("MTP", "-69.0 %")]


def test_before_and_after_on_every_workload(history: History) -> None:
    compared = summarise(history).compared
    assert [(c.workload, formats.percent(c.changes[0].ratio)) for c in compared] == [
        ("sharegpt", "+30.3 %"),
        ("short", "+244.8 %"),
        ("medium", "+7.5 %"),
        ("long", "+1.8 %"),
        ("very-long", "+3.7 %"),
        ("sharegpt-concurrency-4", "-"),
    ]
    assert compared[-1].winner_absent == "not published"
    assert compared[-1].baseline_absent == ""
    assert [change.metric for change in compared[0].changes] == ["total_token_throughput", "mean_tpot_ms"]


def test_losses_are_latency_that_got_worse(history: History) -> None:
    losses = [(loss.metric, loss.workload, formats.rough(loss.change.ratio if loss.change else None)) for loss in
              summarise(history).losses]  # fmt: skip
    assert losses == [("mean_tpot_ms", "sharegpt", "+34 %"), ("mean_tpot_ms", "short", "+128 %")]


@pytest.mark.parametrize("form", FORMS)
def test_losses_come_before_gains(form: object, history: History) -> None:
    text = form(history)  # type: ignore[operator]
    assert "mean TPOT +34 % on sharegpt, +128 % on short" in text
    assert text.index("What got worse") < text.index("Options, each on top")
    assert text.index("+34 % on sharegpt") < text.index("+244.8 %")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_facts(form: object, history: History) -> None:
    text = re.sub("</?span[^>]*>", "", form(history))  # type: ignore[operator]
    for fact in ("7143.30", "+30.3 %", "+21.0 %", "+7.6 %", "20448.42", "not published", "2217.12", "--tp-size 8"):
        assert fact in text
    assert "simulated" not in text


def test_trials_table(history: History) -> None:
    rows = summarise(history).trials
    assert [row.changed for row in rows] == [
        "engine=vllm",
        "engine=sglang",
        "engine=tensorrt-llm",
        "parallelism=tp+dp-attention",
        "torch-compile=on",
        "torch-compile=on, speculative=mtp",
    ]
    assert [row.number for row in rows if row.best] == [3]


def test_best_so_far_moves_where_a_launch_beats_all_before_it(history: History) -> None:
    assert summarise(history).path == ((0, 5482.59), (1, 6635.73), (3, 7143.30))
    noisy = tuple(replace(t, no_op=t.number == 3) for t in history.trials)
    assert summarise(replace(history, trials=noisy)).path == ((0, 5482.59), (1, 6635.73), (4, 6804.17))
    over = tuple(replace(t, violation=0.5 if t.number in (0, 1) else 0.0) for t in history.trials)
    assert summarise(replace(history, trials=over)).path == ((2, 3385.88), (3, 7143.30))


def test_terminal_is_at_most_one_and_a_half_screens_of_aligned_columns(history: History) -> None:
    lines = terminal(history).splitlines()
    assert len(lines) < 75
    assert max(map(len, lines)) <= 110
    start = next(index for index, line in enumerate(lines) if line.startswith("  workload"))
    table = lines[start : start + 7]
    assert len({len(line) for line in table}) == 1
    assert {line[line.index("%") - 2 : line.index("%")] for line in table if "%" in line} <= {
        f"{n} " for n in range(10)
    }


@pytest.mark.parametrize(
    ("factors", "winner", "value"),
    [
        ({"mtp": 4.0}, 5, 8868.48),
        ({"vllm": 2.0}, 0, 10965.18),
        ({"tp+dp-attention": OOM}, 1, 6635.73),
        ({"tensorrt-llm": 3.0}, 2, 10157.64),
    ],
)
def test_permuted_values_move_winner_table_and_gains(
    factors: dict[str, float | Failure], winner: int, value: float
) -> None:
    history = published(scaled(factors))
    summary = summarise(history)
    assert (summary.headline.trial, round(summary.headline.value or 0, 2)) == (winner, value)
    assert summary.compared[0].changes[0].after == summary.headline.value
    assert formats.number(value) in terminal(history)


def test_baseline_that_stays_is_said(history: History) -> None:
    stays = published(scaled({"vllm": 2.0}))
    assert summarise(stays).headline.is_baseline
    assert "no change was kept" in terminal(stays)
    assert not summarise(stays).losses


def test_failed_trial_and_everything_failed() -> None:
    one = published(scaled({"mtp": OOM}))
    assert "out-of-memory: CUDA out of memory" in markdown(one)
    assert "out-of-memory: CUDA" in terminal(one)
    nothing = published(scaled({"vllm": OOM, "sglang": OOM, "tensorrt-llm": OOM, "none": OOM}))
    assert best_so_far(nothing) is None
    for form in FORMS:
        assert "nothing could be measured" in form(nothing)


@pytest.mark.parametrize("form", FORMS)
def test_empty_history(form: object) -> None:
    spec = study()
    empty = History(spec, (), Evaluate(spec.space.baseline, "engine"))
    assert "nothing measured yet" in form(empty)  # type: ignore[operator]


def test_best_so_far_of_an_unfinished_search_is_the_best_ranked() -> None:
    history = published(trials=5)
    assert history.done is None
    best = best_so_far(history)
    assert best is not None
    assert best.number == 3
    assert summarise(history).next == "speculative decoding: torch-compile=on, speculative=mtp"
    assert "Best so far, trial 3" in terminal(history)
    assert "not finished" in terminal(history)


def test_best_so_far_ranks_limits_before_values() -> None:
    limited = Objective(workload="sharegpt", limits={"mean_tpot_ms": 230.0})
    best = best_so_far(published(trials=3, objective=limited))
    assert best is not None
    assert best.number == 0


def test_best_so_far_leaves_no_ops_out_unless_there_is_nothing_else() -> None:
    history = published(trials=4)
    lucky = replace(history.trials[3], no_op=True)
    best = best_so_far(replace(history, trials=(*history.trials[:3], lucky), decision=Wait()))
    assert best is not None
    assert best.number == 1
    alone = best_so_far(replace(history, trials=(lucky,), decision=Wait()))
    assert alone == lucky


def test_confirming_launches_make_the_headline_and_the_table(history: History) -> None:
    assert history.done is not None
    best = history.done.best
    assert best is not None
    confirming = tuple(
        replace(
            history.trials[3], number=number, phase="confirm", value=value,
            outcome=Outcome(Measurement({"total_token_throughput": value, "mean_tpot_ms": 300.0})),
        )
        for number, value in ((6, 7000.0), (7, 6900.0), (8, 6950.0))
    )  # fmt: skip
    done = replace(history.done, value=6950.0, confirmed=True)
    confirmed = replace(history, trials=(*history.trials, *confirming), decision=done)
    summary = summarise(confirmed)
    assert (summary.headline.trial, summary.headline.value) == (8, 6950.0)
    assert summary.headline.median_of == (6, 7, 8)
    assert [row.number for row in summary.trials if row.best] == [6, 7, 8]
    for form in FORMS:
        assert "(median of trials 6, 7 and 8)" in " ".join(form(confirmed).split())
    assert "median of trials 6, 7 and 8" in status_text(confirmed, None, None)
    assert as_json(confirmed, None, None)["best"]["median_of"] == [6, 7, 8]
    assert summary.compared[0].changes[0].after == 6950.0
    assert "; confirmed by new launches" in " ".join(terminal(confirmed).split())
    assert summary.trials[6].changed != ""


def test_noise_band_is_compared_with_the_gain(history: History) -> None:
    assert history.done is not None
    steps = tuple(replace(step, band=0.10) for step in history.done.steps)
    banded = replace(history, decision=replace(history.done, steps=steps, ways=()))
    assert [decided.noise for decided in summarise(banded).decided] == ["above", "within", "within", "below"]
    assert "within the band of 10.0 %" in markdown(banded)


def test_sides_that_were_not_measured_or_failed() -> None:
    live = published(origin="live")
    broken = Comparison("short", Measurement({"total_token_throughput": 1.0}), Failure("crash-under-load", "died"))
    history = replace(live, comparisons=(broken,))
    text = terminal(history)
    assert "fails on short: crash-under-load: died" in text
    assert "failed: crash-under-load" in markdown(history)
    assert "not measured" in text
    assert "not published" not in text


def test_a_lower_is_better_objective_reports_its_own_metric() -> None:
    history = published(objective=Objective("mean_ttft_ms", maximize=False, workload="sharegpt"))
    summary = summarise(history)
    assert summary.headline.value == 5992.0
    assert "5992.00 ms mean TTFT on sharegpt, +66.2 %" in terminal(history)
    assert [change.metric for change in summary.compared[0].changes][-1] == "mean_ttft_ms"


def test_not_recorded_launches_are_listed_with_their_configuration() -> None:
    missing = Failure("not-recorded", "the recording has no such launch")
    history = published(scaled({"mtp": missing}))
    assert summarise(history).missing
    for form in FORMS:
        assert "Asked for and not recorded" in form(history)


def test_time_is_summed_over_trials() -> None:
    history = published(
        lambda outcome, configuration: replace(outcome, timings={"ready": 60.0, "benchmark": 20.0}), origin="live"
    )
    assert summarise(history).time == {"ready": 360.0, "benchmark": 120.0}
    assert re.search(r"ready +6 m 00 s +75 %", terminal(history))


@pytest.mark.parametrize("form", FORMS)
def test_simulated_is_said_on_every_block(form: object) -> None:
    timed = published(lambda o, c: replace(o, timings={"ready": 60.0}), origin="simulated")
    history = replace(timed, cautions=(Caution("x", "12 %", "somewhere"),))
    text = form(history)  # type: ignore[operator]
    for title in ("What got worse", "Warnings and notes", "Options, each", "Baseline and winner", "Trials", "Where the",
                  "Best launch command"):  # fmt: skip
        heading = next(line for line in text.splitlines() if title in line).replace("\\", "")
        assert "simulated" in heading, title
    assert re.search(r"simulated: 7143.30", text)


def test_terminal_shortens_a_long_study_but_keeps_the_best() -> None:
    history = published()
    more = tuple(replace(history.trials[4], number=number, value=1.0) for number in range(6, 60))
    text = terminal(replace(history, trials=history.trials + more))
    assert "(44 more rows in the report)" in text
    assert re.search(r"^ +0 .*engine=vllm", text, re.MULTILINE)
    assert re.search(r"^ +3 .* best$", text, re.MULTILINE)
    assert re.search(r"^ +59 ", text, re.MULTILINE)
    assert len(text.splitlines()) < 95


HOSTILE = "<script>alert(1)</script> \x1b[31mred\x1b[0m \x07\x00 | `x` </pre> \u202eback & <img src=http://evil/x.png>"


def hostile() -> History:
    history = published(scaled({"tensorrt-llm": Failure("crash", HOSTILE, log=HOSTILE)}), name=HOSTILE)
    caution = Caution("x", HOSTILE, HOSTILE)
    return replace(history, cautions=(caution,), provenance={HOSTILE: HOSTILE, "HF_TOKEN": "HF_TOKEN=hf_abc"})


@pytest.mark.parametrize("form", FORMS)
def test_foreign_text_is_shown_as_text(form: object) -> None:
    text = form(hostile())  # type: ignore[operator]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert "[31m" not in text
    assert "hf_abc" not in text
    if form is not terminal:
        assert "<script>alert" not in text
        assert "<img" not in text


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        if tag not in ("meta", "line", "circle", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_one_well_formed_file_that_loads_nothing() -> None:
    for history in (published(), hostile(), published(trials=1), published(trials=0)):
        text = html(history)
        page = Page()
        page.feed(text)
        assert page.open == []
        assert page.addresses == []
        assert not {"link", "img", "iframe", "object", "form"} & set(page.tags)
        assert "@import" not in text
        assert "url(" not in text
        assert page.tags.count("script") == 1


def test_html_has_staircase_and_copy_button(history: History) -> None:
    text = html(history, command="sglang serve 'a b' && <x>")
    assert '<pre id="command">sglang serve &#x27;a b&#x27; &amp;&amp; &lt;x&gt;</pre>' in text
    flags = html(history, command="serve --tp-size 8")
    assert '<pre id="command">serve <span class="word">--tp-size</span> 8</pre>' in flags
    assert 'data-copy="command"' in text
    chart = text[text.index('role="img"') : text.index('class="legend"')]
    assert chart.count("<circle") == 6
    assert chart.count('class="path"') == chart.count('class="end"') == 1
    assert ">winner</text>" in chart
    assert "incumbent" not in text


def test_failed_trials_are_crosses_on_the_staircase() -> None:
    text = html(published(scaled({"mtp": OOM})))
    chart = text[text.index('role="img"') : text.index('class="legend"')]
    assert chart.count('class="cross"') == 1
    assert chart.count("<circle") == 5


def test_markdown_command_cannot_leave_its_fence() -> None:
    text = markdown(published(), command="echo ```\n# not a title")
    assert "````sh\necho ```\n# not a title\n````" in text


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0.30291, "+30.3 %"), (-0.0475, "-4.8 %"), (2.4476, "+244.8 %"), (0.0, "0.0 %"), (-0.0001, "0.0 %"), (None, "-")],
)
def test_percent(ratio: float | None, shown: str) -> None:
    assert formats.percent(ratio) == shown


@pytest.mark.parametrize(
    ("took", "shown"), [(0.84, "0.8 s"), (76.59, "76.6 s"), (723.0, "12 m 03 s"), (7500.0, "2 h 05 m")]
)
def test_seconds(took: float, shown: str) -> None:
    assert formats.seconds(took) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN=hf_1 vllm serve m", "HF_TOKEN=${HF_TOKEN} vllm serve m"),
        (
            "OPENAI_API_KEY='a b' x --api-key sk-1 -tp 8",
            "OPENAI_API_KEY=${OPENAI_API_KEY} x --api-key ${API_KEY} -tp 8",
        ),
        ("x --api-key=sk-1", "x --api-key=${API_KEY}"),
        ('HF_TOKEN="${HF_TOKEN:?}" x', 'HF_TOKEN="${HF_TOKEN:?}" x'),
        ("x --max-num-batched-tokens 8", "x --max-num-batched-tokens 8"),
    ],
)
def test_secrets_are_cut_from_commands(text: str, shown: str) -> None:
    assert formats.redacted(text) == shown


def test_running_and_pruned_trials_have_words() -> None:
    history = published(trials=4)
    running = replace(history.trials[3], state=State.RUNNING, value=None, outcome=None)
    pruned = replace(history.trials[2], state=State.PRUNED, value=None, outcome=None)
    text = terminal(replace(history, trials=(*history.trials[:2], pruned, running), decision=Wait()))
    assert "stopped early: could not win" in text
    assert re.search(r"3 .* running$", text, re.MULTILINE)


def test_command_falls_back_on_what_the_trial_launched() -> None:
    history = replace(published(), commands={})
    assert "sglang.launch_server" in summarise(history).headline.command


def test_no_op_is_marked() -> None:
    history = published(lambda o, c: replace(o, effective=Effective({}, no_op=True)))
    marked = replace(history, trials=tuple(replace(t, no_op=t.number == 4) for t in history.trials))
    assert re.search(r"4 .*no-op$", terminal(marked), re.MULTILINE)


def test_a_configuration_of_no_known_phase_is_named_by_its_differences() -> None:
    history = published(trials=2)
    imported = replace(history.trials[1], number=2, phase="imported", base=None)
    rows = summarise(replace(history, trials=(*history.trials, imported), decision=Wait())).trials
    assert rows[2].changed == "engine=sglang (as trial 1)"
    assert Configuration({"engine": "sglang"}).items() <= imported.configuration.items()


def searched(measure: Measure, method: Method = NORMAL, origin: str = "live", **fields: Any) -> History:
    """A study of the published space over pretended outcomes."""
    spec = study(method=method, **fields)
    trials, done = run(spec.space, measure, method)
    outcome = Outcome(Measurement({"total_token_throughput": 1.0}))
    known = (t if t.failure else replace(t, outcome=outcome) for t in trials)
    return History(spec, tuple(known), done, origin=origin)


def falling_back() -> Measure:
    """Whatever is not the baseline leads when it is first launched and trails when it is launched again."""
    seen: set[Configuration] = set()

    def measure(configuration: Configuration, number: int) -> tuple[float, ...]:
        tuned, again = configuration != study().space.baseline, configuration in seen
        seen.add(configuration)
        value = 1000.0 if not tuned else 900.0 if again else 1500.0
        return (value, value * 1.001)

    return measure


def test_baseline_chosen_by_confirming_launches_says_what_it_was_chosen_over() -> None:
    history = searched(falling_back())
    assert history.done is not None
    assert history.done.best == history.study.space.baseline
    summary = summarise(history)
    assert summary.headline.is_baseline
    assert {decided.phase.split(" on ")[0] for decided in summary.decided} >= {"engine", "parallelism", "confirm"}
    confirm = summary.decided[-1]
    assert (confirm.phase, confirm.kept, confirm.gain) == ("confirm", "baseline", None)
    assert (formats.percent(confirm.rejected_gain), confirm.noise) == ("-10.0 %", "below")
    for form in FORMS:
        text = " ".join(form(history).replace("\\", "").split())
        assert "which the search had kept, was -10.0 % when both were launched again" in text
        assert "no change was kept" not in text


def test_every_engine_that_was_tuned_is_shown_with_its_stages() -> None:
    steady = searched(lambda c, number: (2000.0, 2002.0) if c["engine"] == "sglang" else (1000.0, 1001.0))
    phases = [decided.phase for decided in summarise(steady).decided]
    assert phases[:2] == ["engine on sglang", "parallelism on sglang"]
    assert "parallelism on vllm" in phases
    assert summarise(steady).decided[-1].kept == "sglang"


def test_every_trial_names_its_engine_and_the_launch_it_repeats() -> None:
    rows = summarise(
        searched(lambda c, number: (2000.0, 2002.0) if c["engine"] == "sglang" else (1000.0, 1001.0))
    ).trials
    assert {row.engine for row in rows} == {"vllm", "sglang", "tensorrt-llm"}
    again = [row for row in rows if row.phase == "confirm"]
    assert "baseline (as trial 0)" in [row.changed for row in again]
    assert all("(as trial" in row.changed for row in again)
    for form in FORMS:
        assert "engine" in form(published()).split("Trials")[1]


@pytest.mark.parametrize("form", FORMS)
def test_why_what_was_rejected_was_rejected(form: object) -> None:
    def measure(configuration: Configuration, number: int) -> tuple[float, ...] | Failure:
        if configuration["speculative"] == "mtp":
            return OOM
        value = 995.0 if configuration["torch-compile"] == "on" else 1000.0
        return (value, value * 1.01) if configuration["engine"] == "sglang" else (value * 0.5, value * 0.505)

    history = searched(measure, replace(NORMAL, beam=1))
    noises = {decided.phase: decided.noise for decided in summarise(history).decided}
    assert (noises["torch.compile"], noises["speculative decoding"]) == ("within", "failed")
    text = form(history)  # type: ignore[operator]
    assert "best rejected" in text
    assert "within the band of" in " ".join(text.split())


LOG = "\n".join(f"line {n}" for n in range(20)) + "\n\x1b[31mError: HF_TOKEN=hf_abc <b>no such device</b>\x1b[0m\n\n"


def crashed(origin: str = "live", **fields: Any) -> History:
    return published(scaled({"mtp": Failure("crash", "exited with code 1", log=LOG)}), origin=origin, **fields)


def test_failures_are_shown_with_the_end_of_their_log() -> None:
    for form in (markdown, html):
        text = form(crashed())
        shown = text[text.index("Failures") :]
        assert "trial 5 (speculative decoding): crash" in shown.replace("\\", "")
        assert "trials/0005/server.log" in shown
        assert "line 19\nError: HF_TOKEN=${HF_TOKEN} &lt;b&gt;no such device&lt;/b&gt;</pre>" in shown
        assert "line 13\n" in shown
        assert "line 12\n" not in shown
    text = terminal(crashed())
    assert "[trials/0005/server.log]" in text
    assert "    | Error: HF_TOKEN=${HF_TOKEN} <b>no such device</b>" in text
    assert "line 19" not in text


def test_a_replay_has_no_log_to_name() -> None:
    assert "server.log" not in terminal(crashed(origin="recorded"))
    assert "server.log" not in terminal(replace(crashed(origin="simulated"), provenance={"source": "x"}))
    assert "Failures" not in terminal(published())


def test_trials_that_a_person_ended_are_not_failures() -> None:
    for kind, words in (("interrupted", "interrupted by hand"), ("abandoned", "abandoned: the tuner was killed")):
        history = published(scaled({"mtp": Failure(kind, "x", log=LOG)}), origin="live", trials=6)
        assert words in " ".join(markdown(history).split())
        assert not summarise(history).failures
        assert words in status_text(history, None, None)


@pytest.mark.parametrize("width", [60, 80, 110, 200])
@pytest.mark.parametrize(
    "history", [published(), crashed(), searched(falling_back())], ids=["published", "crash", "beam"]
)
def test_nothing_is_wider_than_the_terminal(history: History, width: int) -> None:
    text = terminal(history, "serve " + "--flag value " * 30, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= max(width, 80)
    for value in ("7143.30", "+244.8 %") if history.origin == "recorded" else ():
        assert value in text
    assert all(len(row) <= width for row in status_text(history, None, None, width).splitlines()[3:])


def test_method_changes_are_named() -> None:
    changed = published(method=replace(PUBLISHED, name="published, changed", min_gain=0.02))
    for form in FORMS:
        assert "method published with changes: min gain 0.02" in form(changed)


def test_html_breaks_commands_and_cells_at_spaces_only() -> None:
    style = html(published()).split("<style>")[1].split("</style>")[0]
    assert "anywhere" not in style
    assert "break-all" not in style
    cells = re.findall(r'<td class="(\w)">([^<]*)</td>', html(published()))
    assert {name for name, _ in cells} <= {"r", "s", "m", "w"}
    assert '<td class="s"><span class="word">tensorrt-llm</span></td>' in html(published())
