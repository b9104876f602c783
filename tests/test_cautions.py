"""The report's own rules: each finds what it is about, names its source, and is silent elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.histories import SPACE, WORKLOADS, published, scaled, study
from tuner.engines import Notice
from tuner.history import Caution, Comparison, History
from tuner.objective import Objective
from tuner.report.cautions import cautions
from tuner.report.stalls import stalled, start_stall
from tuner.search import Wait
from tuner.spec import NodeSpec
from tuner.trial import (
    Effective,
    Failure,
    KeyVerdict,
    Measurement,
    Outcome,
    SideEffect,
    Trial,
    Verdict,
)

DP = Notice(
    "dp-attention", "--enable-dp-attention does nothing without --dp-size", "SGLang 0.5.3 server_args",
    keys=("enable-dp-attention", "dp-size"),
)  # fmt: skip
CAP = Notice(
    "speculation-cap", "speculation caps running requests at 48.", "SGLang 0.5.3", keys=("speculative-algorithm",)
)


@pytest.fixture(scope="module")
def history() -> History:
    return published()


def notices(history: History) -> dict[str, list[Notice]]:
    found = {}
    for trial in history.trials:
        settings = history.study.space.settings(trial.configuration)
        flagged = ((DP, "enable-dp-attention"), (CAP, "speculative-algorithm"))
        found[settings.fingerprint] = [notice for notice, flag in flagged if flag in settings.args]
    return found


def rules(history: History) -> list[str]:
    return [caution.rule for caution in cautions(history)]


def only(history: History, rule: str) -> Caution:
    found = [caution for caution in cautions(history, notices(history)) if caution.rule == rule]
    assert len(found) == 1, found
    return found[0]


def with_trial(history: History, number: int, change: Callable[[Trial], Trial]) -> History:
    return replace(history, trials=tuple(change(t) if t.number == number else t for t in history.trials))


def test_published_study_has_exactly_the_warnings_its_evidence_supports(history: History) -> None:
    found = [caution.rule for caution in cautions(history, notices(history))]
    assert found == [
        "single-measurement", "dp-attention", "speculation-cap", "carried-loser", "start-stall", "not-confirmed",
    ]  # fmt: skip


def test_every_caution_names_its_source_and_warnings_come_first(history: History) -> None:
    found = cautions(history, notices(history))
    assert all(caution.source and caution.text for caution in found)
    severities = [caution.severity for caution in found]
    assert severities == sorted(severities, reverse=True)


def test_engine_notices_carry_trials_and_the_gain_that_rests_on_them(history: History) -> None:
    dp, cap = only(history, "dp-attention"), only(history, "speculation-cap")
    assert dp.trials == (3, 4, 5)
    assert "the winner among them" in dp.text
    assert "stage parallelism changed nothing else and was credited +7.6 %" in dp.text
    assert cap.trials == (5,)
    assert "winner" not in cap.text
    assert "credited" not in cap.text


def test_engine_notice_on_a_loser_credits_nothing() -> None:
    lost = published(scaled({"tp+dp-attention": 0.5}))
    assert "credited" not in only(lost, "dp-attention").text


def test_a_loser_carried_by_with(history: History) -> None:
    carried = only(history, "carried-loser")
    assert "(6804.17 against 7143.30, -4.7 %)" in carried.text
    assert "stage speculative" in carried.source
    assert carried.trials == (5,)


def test_no_carried_loser_where_the_option_won_or_nothing_is_put_on() -> None:
    assert "carried-loser" not in rules(published(scaled({"on": 1.2})))
    stages = tuple(replace(stage, with_={}) for stage in SPACE.stages)
    assert "carried-loser" not in rules(published(space=SPACE.replacing(stages=stages)))


def test_single_measurements_cannot_resolve_a_small_gain(history: History) -> None:
    single = only(history, "single-measurement")
    assert "+7.6 % of stage parallelism" in single.text
    assert "16 %" in single.source


def test_repeats_large_gains_and_known_bands_are_not_called_single(history: History) -> None:
    repeated = with_trial(history, 3, lambda trial: replace(trial, values=(7100.0, 7143.3, 7200.0)))
    assert "single-measurement" not in rules(repeated)
    assert "single-measurement" not in rules(published(scaled({"tp+dp-attention": 1.5})))


@pytest.mark.parametrize(("band", "found"), [(0.10, 1), (0.02, 0)])
def test_gain_within_the_noise_band(history: History, band: float, found: int) -> None:
    assert history.done is not None
    steps = tuple(replace(step, band=band) for step in history.done.steps)
    banded = replace(history, decision=replace(history.done, steps=steps))
    assert rules(banded).count("within-noise") == found


def test_start_stall_by_the_shape_of_ttft(history: History) -> None:
    shown = [(s.side, s.workload, round(s.seconds, 1), s.duration) for s in stalled(history)]
    assert shown == [
        ("baseline", "short", 16.5, 22.07), ("winner", "short", 1.9, 6.4), ("baseline", "sharegpt", 11.0, 76.59),
    ]  # fmt: skip
    text = only(history, "start-stall").text
    assert text.startswith("about 16.5 of 22.1 s (baseline, short)")
    assert "11.0 of 76.6 s (baseline, sharegpt)" in text


def test_start_stall_needs_a_burst_and_both_percentiles(history: History) -> None:
    assert start_stall({"median_ttft_ms": 500.0}) is None
    assert start_stall({"median_ttft_ms": 500.0, "p99_ttft_ms": 2000.0}) == 0.0
    trickle = {name: replace(workload, request_rate=2.0) for name, workload in WORKLOADS.items()}
    assert stalled(replace(history, study=study(workloads=trickle))) == []


def test_short_latency_is_no_stall(history: History) -> None:
    quick = Measurement({"median_ttft_ms": 300.0, "p99_ttft_ms": 310.0, "duration": 0.5})
    calm = replace(history, comparisons=(Comparison("short", quick, quick),))
    assert [stall.workload for stall in stalled(calm)] == ["sharegpt"]


def test_simulated_origin() -> None:
    found = cautions(published(origin="simulated"))
    assert found[0].rule == "simulated"
    assert "simulated" not in rules(published())


def test_cliff_on_a_compared_workload(history: History) -> None:
    slower = Measurement({"total_token_throughput": 47.0})
    compared = Comparison("short", Measurement({"total_token_throughput": 100.0}), slower)
    cliff = only(replace(history, comparisons=(compared,)), "cliff")
    assert "worse than the baseline on short" in cliff.text
    assert "-53.0 %" in cliff.text
    failed = replace(compared, winner=Failure("hang-under-load", "no answer"))
    assert "fails on short" in only(replace(history, comparisons=(failed,)), "cliff").text


def test_limits_missed_by_winner_and_baseline() -> None:
    limits = {"p99_ttft_ms": 9000.0, "mean_tpot_ms": 1000.0}
    found = [c for c in cautions(published(objective=Objective(workload="sharegpt", limits=limits))) if
             c.rule == "limit-missed"]  # fmt: skip
    assert [caution.severity for caution in found] == ["warning", "note"]
    assert "the winner misses p99 TTFT 9650.89 ms (limit 9000)" in found[0].text
    assert "the baseline misses p99 TTFT 24371.87 ms" in found[1].text


def test_confirmation(history: History) -> None:
    assert history.done is not None
    assert only(history, "not-confirmed").severity == "note"
    assert only(published(origin="live"), "not-confirmed").severity == "warning"
    confirmed = replace(history, decision=replace(history.done, confirmed=True))
    assert "not-confirmed" not in rules(confirmed)


def test_what_was_overridden(history: History) -> None:
    forced = replace(history, provenance={"overridden: foreign": "GPU 3 was busy, went on", "driver": "570"})
    assert only(forced, "overridden").text == "overridden: GPU 3 was busy, went on"
    shared = published(origin="live", node=NodeSpec(gpus=8, foreign="warn"))
    assert "somebody else" in only(shared, "overridden").text


def test_no_op_and_side_effects_of_the_winner(history: History) -> None:
    effective = Effective(
        {}, "/get_server_info", verdicts=(KeyVerdict("enable-dp-attention", True, False, "ignored"),),
        side_effects=(SideEffect("mem_fraction_static", 0.897, 0.881), SideEffect("seed", 1, 2, derived=True)),
    )  # fmt: skip

    def read_back(trial: Trial) -> Trial:
        assert trial.outcome is not None
        return replace(trial, no_op=True, outcome=replace(trial.outcome, effective=effective))

    read = with_trial(history, 3, read_back)
    no_op, effects = only(read, "no-op"), only(read, "side-effects")
    assert no_op.trials == (3,)
    assert "ignored what was asked (enable-dp-attention)" in no_op.text
    assert "/get_server_info" in no_op.source
    assert "mem_fraction_static 0.897 -> 0.881" in effects.text
    assert "seed" not in effects.text


def test_failures_by_kind_with_a_hint() -> None:
    oom = Failure("out-of-memory", "CUDA out of memory")
    failed = published(scaled({"on": oom, "mtp": oom}))
    found = only(failed, "out-of-memory")
    assert found.trials == (4, 5)
    assert "CUDA out of memory" in found.text
    assert "smaller memory fraction" in found.text
    assert found.severity == "warning"


def test_abandoned_trials_are_a_note(history: History) -> None:
    gone = with_trial(history, 5, lambda t: t.with_outcome(Outcome.failed("abandoned", "the tuner was killed")))
    assert only(gone, "abandoned").severity == "note"


def test_trials_ended_by_hand_or_by_a_killed_tuner_are_listed_apart(history: History) -> None:
    interrupted, abandoned = Failure("interrupted", "stopped by request"), Failure("abandoned", "gone")
    found = cautions(
        replace(
            history,
            trials=tuple(
                replace(t, outcome=Outcome(failure={3: interrupted, 5: interrupted, 4: abandoned}[t.number]))
                if t.number in (3, 4, 5)
                else t
                for t in history.trials
            ),
        )
    )
    texts = {c.rule: c.text for c in found}
    assert texts["interrupted"].startswith("trials 3, 5 interrupted by hand; no failure of the configuration")
    assert texts["abandoned"].startswith("trial 4 abandoned: the tuner was killed meanwhile")
    assert not any("failed" in text and "interrupted" in text for text in texts.values())
    assert {c.severity for c in found if c.rule in ("interrupted", "abandoned")} == {"note"}


def test_invalid_measurements(history: History) -> None:
    bad = published(scaled({"mtp": Failure("invalid-measurement", "516 of 1000 requests succeeded")}))
    found = only(bad, "invalid-measurement")
    assert "516 of 1000" in found.text
    assert found.trials[0] == 5
    judged = Measurement({"total_token_throughput": 1e9}, verdicts=(Verdict("possible", False, "impossible value"),))
    compared = replace(history, comparisons=(Comparison("short", None, judged),))
    assert "winner on short: impossible value" in only(compared, "invalid-measurement").text


def test_unfinished_and_nothing_measured() -> None:
    unfinished = only(published(trials=3), "unfinished")
    assert unfinished.severity == "note"
    oom = Failure("out-of-memory", "CUDA out of memory")
    assert "nothing-measured" in rules(published(scaled({"none": oom})))
    assert rules(replace(published(trials=0), decision=Wait())) == []


def test_not_recorded_lists_what_was_asked_for() -> None:
    missing = published(scaled({"mtp": Failure("not-recorded", "the recording has no such launch")}))
    found = only(missing, "not-recorded")
    assert "asked for a measurement that" in found.text
    assert "--speculative-algorithm" in found.text
    assert found.trials == (5,)


def test_notes_of_the_winner(history: History) -> None:
    noted = with_trial(
        history, 3, lambda t: replace(t, outcome=replace(t.outcome or Outcome(), notes=("attached: unproven",)))
    )
    assert only(noted, "noted").text == "attached: unproven"
