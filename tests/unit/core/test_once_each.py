"""What was found for an object is found again by the object itself."""

from __future__ import annotations

from voile.core.once_each import MOST, once_each


def test_the_same_object_is_looked_at_once_and_an_equal_one_is_another() -> None:
    looked: list[tuple[float, ...]] = []

    @once_each
    def written(sums: tuple[float, ...]) -> str:
        looked.append(sums)
        return repr(sums)

    one, other = (0.0,), (-0.0,)
    assert one == other
    assert [written(one), written(other), written(one)] == ["(0.0,)", "(-0.0,)", "(0.0,)"]
    assert looked == [one, other]


def test_it_keeps_few_and_never_confuses_them() -> None:
    @once_each
    def first(given: list[int]) -> int:
        return given[0]

    assert [first([number]) for number in range(3 * MOST)] == list(range(3 * MOST))
