from engine.core.cost import is_over


def test_spending_exactly_the_limit_is_not_too_much_however_it_was_summed() -> None:
    assert 0.1 + 0.2 > 0.3
    assert not is_over(0.1 + 0.2, 0.3)
    assert not is_over(0.3, 0.3)
    assert is_over(0.301, 0.3)
