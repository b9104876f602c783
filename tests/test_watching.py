"""What is noticed of a pass under way."""

from __future__ import annotations

from tuner.benchmarks import Event
from tuner.benchmarks.watching import Watch, progress


def event(elapsed: float, tokens: int = 0, done: int = 0, in_flight: int = 4, failed: int = 0) -> Event:
    return Event(elapsed, done, failed, 1000, tokens, in_flight)


def test_progress_is_told_every_half_minute() -> None:
    told: list[str] = []
    watch = Watch(told.append)
    for second in range(70):
        assert not watch(event(second, tokens=second, done=10 * second, failed=int(second > 50)))
    assert told == [
        "30 s: 300 of 1000 requests done, 4 in flight, 1 tok/s out so far",
        "60 s: 601 of 1000 requests done, 1 of them failed, 4 in flight, 1 tok/s out so far",
    ]


def test_progress_has_the_bound_where_there_is_one() -> None:
    seen = Event(12.3, 409, 3, 1000, 63_020, 64, 9123.4)
    assert progress(seen) == (
        "12 s: 412 of 1000 requests done, 3 of them failed, 64 in flight, 5124 tok/s out so far, "
        "at most 9123 tok/s in all"
    )


def test_a_pass_in_which_nothing_comes_is_ended() -> None:
    told: list[str] = []
    watch = Watch(told.append, hang_s=50)
    assert not watch(event(5, tokens=9, done=2))
    assert not watch(event(54, tokens=9, done=2))
    assert not watch.hung
    assert watch(event(55, tokens=9, done=2))
    done = "2 of 1000 requests done, 4 in flight, 0 tok/s out so far"
    assert watch.hung == f"no token of any request for 50 s: 55 s: {done}"
    assert told == [f"54 s: {done}, nothing came for 49 s"]


def test_a_single_token_of_any_request_is_a_sign_of_life() -> None:
    watch = Watch(lambda text: None, hang_s=50)
    assert not any(watch(event(10 * turn, tokens=turn // 4)) for turn in range(100))


def test_a_pause_between_arrivals_is_no_hang() -> None:
    watch = Watch(lambda text: None, hang_s=50)
    assert not watch(event(5, tokens=9))
    assert not watch(event(500, tokens=9, in_flight=0))
    assert not watch(event(501, tokens=9, in_flight=1))
    assert watch(event(550, tokens=9, in_flight=1))


def test_a_server_that_ended_is_noticed_while_nothing_comes() -> None:
    asked: list[float] = []

    def lost() -> bool:
        asked.append(1)
        return len(asked) == 2

    watch = Watch(lambda text: None, hang_s=50, lost=lost)
    assert not watch(event(9))
    assert not asked
    assert not watch(event(10))
    assert watch(event(11))
    assert not watch.hung
