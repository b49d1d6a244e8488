"""Where randomness comes from, and that it is what it says."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tests.faults.forking import child, lines
from voile.core import randomness
from voile.core.errors import InvalidInput
from voile.core.randomness import GeneratorSource, Seeded, StreamCipher
from voile.core.row_note import KnownNote

Noise = Callable[[ArrayLike, float], NDArray[np.float64]]
NOISES = [randomness.laplace, randomness.gaussian]

# Keystream of ChaCha20 for a key, nonce and counter of zero: RFC 8439, A.1, test vectors 1 and 2.
ZERO_KEYSTREAM = bytes.fromhex(
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
    "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
)


def raw(generator: np.random.Generator, count: int) -> bytes:
    words: NDArray[np.uint64] = generator.bit_generator.random_raw(count)
    return words.astype("<u8").tobytes()


# --- the stream cipher ----------------------------------------------------------------------------


def test_the_stream_is_chacha20() -> None:
    assert raw(randomness._chacha20(0), 16) == ZERO_KEYSTREAM


def test_every_bit_of_the_key_matters() -> None:
    streams = {raw(randomness._chacha20(1 << bit), 8) for bit in range(256)}
    assert len(streams | {raw(randomness._chacha20(0), 8)}) == 257


def test_the_key_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def randbits(bits: int) -> int:
        asked.append(bits)
        return 0

    monkeypatch.setattr("secrets.randbits", randbits)
    assert raw(StreamCipher().generator(), 16) == ZERO_KEYSTREAM
    assert asked == [256]


def test_two_stream_ciphers_differ() -> None:
    assert raw(StreamCipher().generator(), 4) != raw(StreamCipher().generator(), 4)


def test_a_second_call_continues_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbits", lambda _: 0)
    cipher = StreamCipher()
    assert raw(cipher.generator(), 5) + raw(cipher.generator(), 11) == ZERO_KEYSTREAM


def test_a_forked_child_has_a_stream_of_its_own() -> None:
    cipher = StreamCipher()
    cipher.generator()  # there is a key to repeat

    def draw(pipe: int) -> None:
        os.write(pipe, raw(cipher.generator(), 4).hex().encode() + b"\n")

    drawn = []
    for _ in range(2):
        with child(draw) as (_, pipe):
            drawn += lines(pipe)
    drawn += [raw(cipher.generator(), 4).hex()]
    assert len(set(drawn)) == 3


def test_the_parent_keeps_its_stream_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbits", lambda _: 0)
    cipher = StreamCipher()
    first = raw(cipher.generator(), 8)
    with child(lambda _: None) as (_, pipe):
        lines(pipe)
    assert first + raw(cipher.generator(), 8) == ZERO_KEYSTREAM


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("used", [False, True])
def test_a_stream_cipher_cannot_be_copied(duplicate: Callable[[Any], Any], used: bool) -> None:
    cipher = StreamCipher()
    if used:
        cipher.generator()
    with pytest.raises(TypeError, match="must not be copied"):
        duplicate(cipher)


# --- the seeded kind ------------------------------------------------------------------------------


def test_a_seed_makes_it_reproducible() -> None:
    def drawn(seed: int) -> list[float]:
        source = Seeded(seed)
        return [source.generator().random() for _ in range(4)]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    assert len(set(drawn(7))) == 4  # later calls continue the stream


def test_what_is_seeded_says_so_and_the_rest_does_not() -> None:
    sources: list[GeneratorSource] = [Seeded(1), StreamCipher()]
    assert [source.note for source in sources] == [KnownNote.SEEDED_NOISE, None]
    assert str(KnownNote.SEEDED_NOISE) == "no privacy guarantee (seeded noise)"
    with pytest.raises(TypeError):
        Seeded(1, note=None)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Seeded(1).note = None  # type: ignore[misc]


# --- exact samplers -------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 3, 4)])
def test_the_shape_is_kept_and_the_input_untouched(noise: Noise, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    before = values.copy()
    noisy = noise(values, 1e-9)
    assert noisy.shape == shape
    assert noisy.dtype == np.float64
    assert np.allclose(noisy, before, rtol=0, atol=1e-6)  # each value has its own place
    assert np.array_equal(values, before)
    assert not np.shares_memory(noisy, values)


@pytest.mark.parametrize("noise", NOISES)
def test_plain_lists_and_other_layouts_will_do(noise: Noise) -> None:
    assert noise([1, 2], 1e-9).round().tolist() == [1, 2]
    turned = np.asfortranarray([[1, 2], [3, 4]])
    assert noise(turned, 1e-9).round().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, -np.inf])
def test_a_wrong_scale_is_refused(noise: Noise, scale: float) -> None:
    with pytest.raises(InvalidInput, match="scale"):
        noise([1.0], scale)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "values", [[], np.empty((0, 3)), [1, np.nan], [np.inf], ["a"], [[1], [2, 3]], [1j], None, [{}]]
)
def test_wrong_values_are_refused(noise: Noise, values: Any) -> None:
    with pytest.raises(InvalidInput, match="noise is added to"):
        noise(values, 1.0)


@pytest.mark.parametrize("noise", NOISES)
def test_two_calls_differ_and_so_do_all_values(noise: Noise) -> None:
    drawn = np.concatenate([noise(np.zeros(50), 1.0), noise(np.zeros(50), 1.0)])
    assert len(set(drawn.tolist())) == 100


def test_a_seed_has_no_say_in_what_is_published() -> None:
    drawn = set()
    for _ in range(3):
        np.random.seed(0)  # noqa: NPY002
        drawn.add(float(randomness.laplace([0.0], 1.0)[0]))
    assert len(drawn) == 3


DRAWS = 15_000
SCALE = 3.0
FALSE_ALARM = 1e-7  # for each of the six comparisons below


def test_laplace_noise_follows_its_law() -> None:
    noise = randomness.laplace(np.full(DRAWS, 5.0), SCALE) - 5
    assert stats.kstest(noise, stats.laplace(scale=SCALE).cdf).pvalue > FALSE_ALARM
    # The sizes are exponential, so their sum follows a gamma law: a sharper look at the scale.
    total = np.abs(noise).sum() / SCALE
    tail = stats.gamma(DRAWS).cdf(total)
    assert FALSE_ALARM / 2 < tail < 1 - FALSE_ALARM / 2
    signs = int((noise > 0).sum())
    assert stats.binomtest(signs, DRAWS).pvalue > FALSE_ALARM


def test_gaussian_noise_follows_its_law() -> None:
    noise = randomness.gaussian(np.full(DRAWS, 5.0), SCALE) - 5
    assert stats.kstest(noise, stats.norm(scale=SCALE).cdf).pvalue > FALSE_ALARM
    tail = stats.chi2(DRAWS).cdf(np.square(noise / SCALE).sum())
    assert FALSE_ALARM / 2 < tail < 1 - FALSE_ALARM / 2
    mean = noise.mean() * np.sqrt(DRAWS) / SCALE
    assert 2 * stats.norm.sf(abs(mean)) > FALSE_ALARM


def test_neighbouring_values_get_independent_noise() -> None:
    noise = randomness.laplace(np.zeros((2, 4000)), 1.0)
    correlation = float(np.asarray(np.corrcoef(noise))[0, 1])
    assert abs(correlation) * np.sqrt(4000) < 5.5
