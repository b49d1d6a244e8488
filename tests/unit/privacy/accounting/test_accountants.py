"""Accountants against closed forms and against dp-accounting and OpenDP where they cover it."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import dp_accounting
import mpmath
import numpy as np
import pytest
from experiments.lib.accounting.accountants import Advanced, Renyi
from experiments.lib.accounting.trade_off import gaussian_trade_off, trade_off
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.privacy.accounting import Basic, PrivacyLoss, ZeroConcentrated
from voile.privacy.accounting.conversion import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    renyi,
    renyi_budget,
    renyi_to_epsilon,
    zcdp_budget,
    zcdp_to_epsilon,
)
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PureDp,
    Repeated,
    Zcdp,
)

QUERY = Gaussian(gaussian_noise_multiplier(0.1, 1e-5))
SAMPLED = PoissonSampled(Gaussian(1.2), 0.05, Relation.BLANK_ONE)


class TestHundredQueries:
    """A hundred Gaussian queries of (0.1, 1e-5) each, by every accountant."""

    def test_basic_composition_shows_10_and_a_thousandth(self) -> None:
        assert Basic().compose(QUERY, 100).epsilon(1e-3) == pytest.approx(10.0, rel=1e-6)

    def test_zero_concentrated(self) -> None:
        assert ZeroConcentrated().compose(QUERY, 100).epsilon(1e-5) == pytest.approx(
            1.349, abs=1e-3
        )

    def test_one_renyi_order(self) -> None:
        accountant = Renyi(orders=(14,)).compose(QUERY, 100)
        assert accountant.epsilon(1e-5) == pytest.approx(1.349, abs=1e-3)

    @pytest.mark.parametrize(
        ("times", "delta"), [(13649, 1.2e-13), (4005, 1.3e-13), (764, 6.5e-12)]
    )
    def test_numerical_is_never_below_the_exact_figure(self, times: int, delta: float) -> None:
        """Fast Fourier transforms round; a delta that small would be made of rounding errors."""
        for mu in (0.5, 2.4, 5.7):
            accountant = PrivacyLoss().compose(Gaussian(math.sqrt(times) / mu), times)
            exact = gaussian_epsilon(1 / mu, delta)
            assert accountant.epsilon(delta) >= exact
            assert accountant.delta(exact) >= delta * (1 - 1e-9)

    def test_numerical_is_exact(self) -> None:
        exact = gaussian_epsilon(QUERY.noise_multiplier / 10, 1e-5)
        assert exact == pytest.approx(1.237, abs=1e-3)
        assert PrivacyLoss().compose(QUERY, 100).epsilon(1e-5) == pytest.approx(exact, rel=1e-4)

    def test_advanced_lies_between(self) -> None:
        advanced = Advanced().compose(QUERY, 100).epsilon(1e-3)
        assert 1.0 < advanced < Basic().compose(QUERY, 100).epsilon(1e-3)


class TestAgainstDpAccounting:
    @pytest.mark.parametrize("times", [1, 10, 1000])
    def test_renyi_of_sampled_gaussian(self, times: int) -> None:
        orders = list(range(2, 65))
        theirs = dp_accounting.rdp.RdpAccountant(orders=orders)
        theirs.compose(
            dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.2)), times
        )
        ours = Renyi(orders=tuple(orders)).compose(SAMPLED, times)
        assert ours.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-9)

    @pytest.mark.parametrize("order", [2, 3.5, 14, 100])
    def test_renyi_of_laplace(self, order: float) -> None:
        theirs = dp_accounting.rdp.RdpAccountant(orders=[order])
        theirs.compose(dp_accounting.LaplaceDpEvent(1.7))
        ours = Renyi(orders=(order,)).compose(Laplace(1.7))
        assert ours.epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-9)

    @pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
    def test_numerical_composition(self, relation: Relation) -> None:
        neighbours = {
            Relation.BLANK_ONE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
            Relation.REPLACE_ONE: dp_accounting.NeighboringRelation.REPLACE_ONE,
        }
        theirs = dp_accounting.pld.PLDAccountant(neighbours[relation])
        theirs.compose(
            dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.2)), 200
        )
        event = PoissonSampled(Gaussian(1.2), 0.05, relation)
        ours = PrivacyLoss().compose(event, 200).epsilon(1e-5)
        assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=2e-3)

    def test_seven_randomised_responses_cost_seven_times_one(self) -> None:
        """dp-accounting 0.6 ignores the count here (it says 1.0987 for seven)."""
        epsilon = math.log(3)
        ours = PrivacyLoss().compose(PureDp(epsilon), 7)
        assert ours.epsilon(1e-9) == pytest.approx(7 * epsilon, rel=1e-2)

    def test_three_stages_of_dp_sgd_together(self) -> None:
        stage = Repeated(PoissonSampled(Gaussian(4.336), 0.256, Relation.BLANK_ONE), 40)
        assert PrivacyLoss().compose(stage).epsilon(1e-3) == pytest.approx(1.0, abs=2e-3)
        assert PrivacyLoss().compose(stage, 2).epsilon(1e-3) == pytest.approx(1.50, abs=1e-2)
        assert PrivacyLoss().compose(stage, 3).epsilon(1e-3) == pytest.approx(1.91, abs=1e-2)


class TestAgainstOpenDp:
    def test_laplace_and_gaussian_events_state_what_opendp_maps(self) -> None:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        scalar = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        laplace = dp.m.make_laplace(*scalar, scale=2.5)
        assert laplace.map(1.0) == pytest.approx(Basic().compose(Laplace(2.5)).epsilon(0.0))
        gaussian = dp.m.make_gaussian(*scalar, scale=2.5)
        assert gaussian.map(1.0) == pytest.approx(ZeroConcentrated().compose(Gaussian(2.5)).rho)

    def test_conversion_of_rho_is_not_below_opendps_exact_curve_for_gaussian(self) -> None:
        """OpenDP converts zCDP to a curve as well; both are upper bounds of the same thing."""
        import opendp.prelude as dp

        dp.enable_features("contrib")
        scalar = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*scalar, scale=2.0)).map(1.0)
        ours = zcdp_to_epsilon(1 / 8, 1e-6)
        assert ours == pytest.approx(curve.epsilon(delta=1e-6), rel=1e-3)


class TestConversion:
    @given(st.floats(0.05, 30), st.floats(1e-12, 0.3))
    def test_the_analytic_calibration_is_tight(self, epsilon: float, delta: float) -> None:
        z = gaussian_noise_multiplier(epsilon, delta)
        assert gaussian_delta(z, epsilon) <= delta
        assert gaussian_delta(z * (1 - 1e-6), epsilon) > delta * (1 - 1e-9)

    @pytest.mark.parametrize("z", [0.3, 0.99, 1.01, 30.0, 1e4, 1e8])
    @pytest.mark.parametrize("scaled", [0.01, 1.0, 5.0, 12.0])
    def test_gaussian_delta_loses_no_digits(self, z: float, scaled: float) -> None:
        """Against 50 digits, also where delta is a difference of nearly equal numbers."""
        epsilon = scaled / z
        with mpmath.workdps(50):
            mu, e = 1 / mpmath.mpf(z), mpmath.mpf(epsilon)
            exact = mpmath.ncdf(mu / 2 - e / mu) - mpmath.e**e * mpmath.ncdf(-mu / 2 - e / mu)
            assert abs(gaussian_delta(z, epsilon) / exact - 1) < 1e-11

    @given(st.floats(0.3, 50), st.floats(1e-10, 0.1))
    def test_gaussian_epsilon_is_on_the_safe_side(self, z: float, delta: float) -> None:
        assert gaussian_delta(z, gaussian_epsilon(z, delta)) <= delta * (1 + 1e-9)

    @given(st.floats(1.1, 200), st.floats(0.01, 20), st.floats(1e-12, 0.1))
    def test_a_renyi_budget_is_what_the_conversion_allows(
        self, order: float, epsilon: float, delta: float
    ) -> None:
        budget = renyi_budget(order, epsilon, delta)
        if budget > 0:
            assert renyi_to_epsilon(order, budget, delta) == pytest.approx(epsilon, rel=1e-9)

    @given(st.floats(0.05, 20), st.floats(1e-12, 0.1))
    def test_a_concentrated_budget_is_what_the_conversion_allows(
        self, epsilon: float, delta: float
    ) -> None:
        rho = zcdp_budget(epsilon, delta)
        assert zcdp_to_epsilon(rho, delta) <= epsilon * (1 + 1e-6)
        assert zcdp_to_epsilon(rho * 1.001, delta) > epsilon * (1 - 1e-9)

    @given(st.floats(0.001, 5), st.floats(1e-10, 0.1))
    def test_rho_of_gaussian_noise_never_reads_less_than_the_exact_curve(
        self, rho: float, delta: float
    ) -> None:
        exact = gaussian_epsilon(1 / math.sqrt(2 * rho), delta)
        assert zcdp_to_epsilon(rho, delta) >= exact * (1 - 1e-9)


class TestCurves:
    ORDERS = np.array([1.5, 2.0, 8.0, 64.0])

    def test_pure_privacy_is_bounded_by_epsilon_and_by_rho(self) -> None:
        for epsilon in (0.1, 1.0, 5.0):
            curve = renyi(PureDp(epsilon), self.ORDERS)
            assert (curve <= epsilon + 1e-12).all()
            assert (curve <= self.ORDERS * epsilon**2 / 2 + 1e-12).all()

    def test_the_exponential_mechanism_is_cheaper_than_pure_privacy(self) -> None:
        assert (
            renyi(BoundedRange(0.5), self.ORDERS) <= renyi(PureDp(0.5), self.ORDERS) + 1e-15
        ).all()
        bounded = ZeroConcentrated().compose(BoundedRange(0.5)).rho
        assert bounded == pytest.approx(ZeroConcentrated().compose(PureDp(0.5)).rho / 4)

    def test_the_exponential_mechanism_keeps_its_curve(self) -> None:
        """Two score vectors at distance Δ: the divergence of the outputs is below the curve."""
        epsilon = 1.0
        scores = np.array([0.0, 0.3, -0.2, 1.0])
        for signs in np.array(np.meshgrid(*[[-1, 1]] * 4)).T.reshape(-1, 4):
            p = np.exp(epsilon * scores / 2)
            q = np.exp(epsilon * (scores + signs) / 2)
            p, q = p / p.sum(), q / q.sum()
            for order, claimed in zip(
                self.ORDERS, renyi(BoundedRange(epsilon), self.ORDERS), strict=True
            ):
                divergence = np.log((p**order * q ** (1 - order)).sum()) / (order - 1)
                assert divergence <= claimed + 1e-12

    @pytest.mark.parametrize("order", [1.01, 2.0, 14.0, 512.0])
    def test_tiny_charges_are_neither_lost_nor_negative(self, order: float) -> None:
        """log(1 + x) of a tiny x, many times over: a rounding error would be a refund."""
        for multiplier in (1e5, 1e8, 1e9, 1e12):
            leading = order / (2 * multiplier**2)
            for event in (PureDp(1 / multiplier), Laplace(multiplier)):
                cost = renyi(event, np.array([order]))[0]
                assert cost == pytest.approx(leading, rel=1e-2, abs=0)
        if order == round(order):
            for rate in (1e-8, 1e-10):
                step = PoissonSampled(Gaussian(30.0), rate, Relation.BLANK_ONE)
                leading = order / 2 * rate**2 * math.expm1(1 / 900)
                assert renyi(step, np.array([order]))[0] == pytest.approx(leading, rel=1e-2, abs=0)

    @pytest.mark.parametrize("order", [1.5, 2.0, 7.0, 100.0])
    def test_curves_against_sums_and_integrals(self, order: float) -> None:
        """The definition of the divergence, in sixty digits."""
        for scale in (0.02, 0.9, 1.1, 30.0):
            with localcontext(prec=60):
                a, t = Decimal(order), Decimal(1 / scale)
                p, q = 1 / (1 + (-t).exp()), 1 / (1 + t.exp())
                pure = (p**a * q ** (1 - a) + q**a * p ** (1 - a)).ln() / (a - 1)
                a, t = Decimal(order), 1 / Decimal(scale)
                up, down = a * ((a - 1) * t).exp(), (a - 1) * (-a * t).exp()
                laplace = ((up + down) / (2 * a - 1)).ln() / (a - 1)
            orders = np.array([order])
            assert renyi(PureDp(1 / scale), orders)[0] == pytest.approx(float(pure), rel=1e-12)
            assert renyi(Laplace(scale), orders)[0] == pytest.approx(float(laplace), rel=1e-12)

    def test_sampling_everything_is_no_sampling(self) -> None:
        orders = np.array([2.0, 8.0])
        whole = PoissonSampled(Gaussian(1.2), 1.0, Relation.BLANK_ONE)
        assert np.allclose(renyi(whole, orders), renyi(Gaussian(1.2), orders))

    def test_what_an_accountant_cannot_hold_is_refused_with_the_alternative(self) -> None:
        with pytest.raises(Refused, match="fixed plan"):
            ZeroConcentrated().compose(SAMPLED)
        with pytest.raises(Refused, match="fixed plan"):
            Renyi().compose(PoissonSampled(Gaussian(1.0), 0.1, Relation.REPLACE_ONE))
        with pytest.raises(Refused, match="whole orders"):
            Renyi(orders=(1.5,)).compose(SAMPLED)
        with pytest.raises(Refused):
            ZeroConcentrated().compose(ApproximateDp(1.0, 1e-6))
        with pytest.raises(Refused, match="ZeroConcentrated"):
            PrivacyLoss().compose(Zcdp(0.1)).epsilon(1e-5)

    def test_an_event_that_needs_more_delta_than_its_share_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="share"):
            Basic().compose(ApproximateDp(1.0, 1e-6), 2).epsilon(1e-6)
        assert Basic().compose(ApproximateDp(1.0, 1e-6), 2).epsilon(2e-6) == 2.0

    def test_nested_parallel_parts_cannot_explode(self) -> None:
        fork = Parallel(tuple(PureDp(0.1 * n) for n in range(1, 12)))
        with pytest.raises(Refused, match="ways"):
            PrivacyLoss().compose(Composed((fork, fork, fork, fork))).epsilon(1e-5)


class TestTradeOff:
    def test_it_lies_below_the_exact_gaussian_curve_and_close_to_it(self) -> None:
        alpha = np.linspace(0.001, 0.999, 50)
        ours = trade_off(PrivacyLoss().compose(Gaussian(1.0)), alpha, points=40)
        exact = gaussian_trade_off(1.0, alpha)
        assert (ours <= exact + 1e-6).all()
        assert np.abs(ours - exact).max() < 0.03

    def test_it_starts_near_one_falls_and_ends_at_zero(self) -> None:
        curve = trade_off(ZeroConcentrated().compose(Gaussian(2.0)), [0.0, 0.1, 0.5, 1.0])
        assert curve[0] > 0.99
        assert (np.diff(curve) < 0).all()
        assert curve[-1] == 0.0

    @settings(max_examples=20, deadline=None)
    @given(st.floats(0.5, 10), st.floats(1.1, 3))
    def test_more_noise_gives_a_higher_curve(self, z: float, factor: float) -> None:
        alpha = np.linspace(0, 1, 11)
        less = trade_off(ZeroConcentrated().compose(Gaussian(z)), alpha)
        more = trade_off(ZeroConcentrated().compose(Gaussian(z * factor)), alpha)
        assert (more >= less - 1e-12).all()

    def test_where_nothing_is_promised_the_curve_is_zero(self) -> None:
        accountant = PrivacyLoss().compose(ApproximateDp(1.0, 0.9))
        assert (trade_off(accountant, [0.0, 0.5, 1.0]) == 0.0).all()
        large = trade_off(Basic().compose(PureDp(2000.0)), [0.0, 0.5])
        assert np.isfinite(large).all()

    def test_rates_outside_0_1_are_refused(self) -> None:
        with pytest.raises(InvalidInput):
            trade_off(ZeroConcentrated(), [1.5])
