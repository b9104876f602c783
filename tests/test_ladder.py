"""Several loads on one server: which comes next, and how the search ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.benchmarks.ladder import MOST_STEPS, Ladder, Rung, failing, holding, next_load


def sought(ladder: Ladder, capacity: float) -> list[Rung]:
    """Every step of a search on a server whose requests meet the limits up to this load."""
    rungs: list[Rung] = []
    while (load := next_load(ladder, rungs)) is not None:
        rungs.append(Rung(load, 1.0 if load <= capacity else 0.5))
        assert len(rungs) <= MOST_STEPS
    return rungs


def test_given_loads_are_walked_in_their_order() -> None:
    ladder = Ladder("concurrency", loads=(16, 64, 8))
    tried: list[Rung] = []
    while (load := next_load(ladder, tried)) is not None:
        tried.append(Rung(load, 0.0))
    assert [rung.load for rung in tried] == [16, 64, 8]


@pytest.mark.parametrize(("capacity", "loads"), [(8, [8, 16, 11, 9]), (1, [8, 4, 2, 1]), (0, [8, 4, 2, 1])])
def test_the_steps_of_a_search(capacity: float, loads: list[float]) -> None:
    assert [rung.load for rung in sought(Ladder("concurrency"), capacity)] == loads


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_search_ends_close_to_the_capacity(capacity: int, most: int) -> None:
    ladder = Ladder("concurrency", most=float(most))
    rungs = sought(ladder, capacity)
    best = holding(ladder, rungs)
    assert best is not None
    assert best <= min(capacity, most)
    assert len({rung.load for rung in rungs}) == len(rungs)
    assert all(rung.load == int(rung.load) and 1 <= rung.load <= most for rung in rungs)
    assert best == most or capacity < best * 1.06 + 1


@given(st.floats(0.02, 5000))
def test_rates_are_sought_too(capacity: float) -> None:
    ladder = Ladder("rate", most=10_000)
    best = holding(ladder, sought(ladder, capacity))
    assert best is not None
    assert best <= capacity <= best * 1.2


def test_nothing_holds() -> None:
    for kind in ("concurrency", "rate"):
        ladder = Ladder(kind, most=100)
        rungs = sought(ladder, 0)
        assert holding(ladder, rungs) is None
        assert failing(ladder, rungs) == min(rung.load for rung in rungs)


def test_a_load_that_holds_above_one_that_fails_is_not_believed() -> None:
    ladder = Ladder("concurrency")
    assert holding(ladder, [Rung(8, 1), Rung(16, 0.9), Rung(32, 1)]) == 8
    assert holding(Ladder("concurrency", share=0.9), [Rung(8, 1), Rung(16, 0.9), Rung(32, 1)]) == 32
