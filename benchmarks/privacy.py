"""Noise, calibration and composition beside OpenDP called directly, numpy and dp-accounting."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import dp_accounting
import numpy as np
import opendp.prelude as dp
from experiments.lib.accounting.accountants import Renyi

from benchmarks.harness import Figure, alternate, compare, write
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy import calibration
from voile.privacy.accounting import PrivacyLoss, ZeroConcentrated, ZeroConcentratedFilter
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.privacy.events import Gaussian, Laplace, PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism, LaplaceMechanism
from voile.privacy.sensitivity import Norm, clipped_vector

SIZE = 12


def rate(draw: Callable[[], object], *, values: int, calls: int) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            draw()
        return values * calls / (time.perf_counter() - start)

    return run


def seconds(work: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


def noise() -> list[Figure]:
    """The same vector of 12 through voile's mechanism, OpenDP's measurement, and numpy."""
    values = np.linspace(-1, 1, SIZE)
    listed = values.tolist()
    generator = np.random.default_rng()
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=SIZE)
    figures = []
    for norm in (Norm.L2, Norm.L1):
        bound = clipped_vector(
            bound=1.0, norm=norm, unit=ProtectedUnit.ROW, relation=Relation.BLANK_ONE
        )
        ours: GaussianMechanism | LaplaceMechanism
        if norm is Norm.L2:
            name = "Gaussian"
            ours = GaussianMechanism(sigma=1.0, sensitivity=bound, shape=(SIZE,))
            theirs = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0, k=-40)
            plain = rate(lambda: generator.normal(values), values=SIZE, calls=20_000)
        else:
            name = "Laplace"
            ours = LaplaceMechanism(scale=1.0, sensitivity=bound, shape=(SIZE,))
            theirs = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=1.0, k=-40)
            plain = rate(lambda: generator.laplace(values), values=SIZE, calls=20_000)
        voile_rate, opendp_rate, numpy_rate = alternate(
            [
                rate(lambda m=ours: m.randomise(values), values=SIZE, calls=1000),  # type: ignore[misc]
                rate(lambda m=theirs: m(listed), values=SIZE, calls=1000),  # type: ignore[misc]
                plain,
            ],
            rounds=9,
        )
        figures.append(
            compare(
                f"{name} noise on 12 values, peer OpenDP itself",
                "values/s",
                voile_rate,
                opendp_rate,
                at_least=0.9,
            )
        )
        figures.append(
            compare(
                f"{name} noise on 12 values, peer numpy (not exact)",
                "values/s",
                voile_rate,
                numpy_rate,
            )
        )
    return figures


def calibrate() -> list[Figure]:
    """DP-SGD with sampling rate 0.256, 80 steps, to (2, 1e-5): ours and dp-accounting's search."""
    logging.disable(logging.WARNING)

    def ours() -> None:
        calibration._dp_sgd_noise.cache_clear()
        dp_sgd_noise([NoisyStage(0.256, 80)], epsilon=2.0, delta=1e-5, relation=Relation.BLANK_ONE)

    def theirs() -> None:
        dp_accounting.calibrate_dp_mechanism(
            dp_accounting.pld.PLDAccountant,
            lambda z: dp_accounting.SelfComposedDpEvent(
                dp_accounting.PoissonSampledDpEvent(0.256, dp_accounting.GaussianDpEvent(z)), 80
            ),
            2.0,
            1e-5,
            tol=1e-3,
        )

    mine, peer = alternate([_without_cache(ours), seconds(theirs)], rounds=3)
    within = Figure(
        "one DP-SGD calibration, in seconds", "s", mine, None, None, "under 0.2", mine < 0.2
    )
    return [
        compare(
            "one DP-SGD calibration, peer dp-accounting's search", "s", mine, peer, at_most=1.0
        ),
        within,
    ]


def _without_cache(work: Callable[[], object]) -> Callable[[], float]:
    from voile.privacy.accounting import privacy_loss

    def run() -> float:
        privacy_loss._composed.cache_clear()
        privacy_loss._distribution.cache_clear()
        return seconds(work)()

    return run


def compose() -> list[Figure]:
    """Ten thousand events, of a hundred kinds, one after the other."""
    events: list[PrivacyEvent] = [
        Gaussian(10 + n % 50) if n % 2 else Laplace(50 + n % 50) for n in range(10_000)
    ]

    def ours(new: Callable[[], ZeroConcentrated | Renyi]) -> Callable[[], float]:
        def work() -> None:
            accountant = new()
            for event in events:
                accountant = accountant.compose(event)
            accountant.epsilon(1e-5)

        return seconds(work)

    def theirs() -> None:
        accountant = dp_accounting.rdp.RdpAccountant()
        for event in events:
            if isinstance(event, Gaussian):
                accountant.compose(dp_accounting.GaussianDpEvent(event.noise_multiplier))
            elif isinstance(event, Laplace):
                accountant.compose(dp_accounting.LaplaceDpEvent(event.noise_multiplier))
        accountant.get_epsilon(1e-5)

    def filtered() -> None:
        account = ZeroConcentratedFilter(1e6, 1e-5)
        for event in events:
            account = account.spend(event)

    renyi, zcdp, filter_time, peer = alternate(
        [ours(Renyi), ours(ZeroConcentrated), seconds(filtered), seconds(theirs)], rounds=3
    )
    name = "10,000 events, peer dp-accounting (Rényi)"
    return [
        compare(f"Rényi, {name}", "s", renyi, peer),
        compare(f"zero-concentrated, {name}", "s", zcdp, peer),
        compare(f"zero-concentrated filter, {name}", "s", filter_time, peer),
        numerical(),
    ]


def numerical() -> Figure:
    def work() -> None:
        accountant = PrivacyLoss()
        for _ in range(100):
            accountant = accountant.compose(Gaussian(100.0), 50)
            accountant = accountant.compose(Laplace(500.0), 50)
        accountant.epsilon(1e-5)

    (took,) = alternate([_without_cache(work)], rounds=3)
    return Figure("numerical (PLD), 10,000 events of two kinds", "s", took, None, None)


def run() -> None:
    write(
        "privacy",
        "OpenDP 0.16 and dp-accounting 0.6, called directly; numpy",
        [*noise(), *calibrate(), *compose()],
    )
