"""The tree: reference vectors, and equality with the recursive definition."""

from __future__ import annotations

import hashlib
import random
from functools import cache

import pytest

from voile.records.audit_log.log import complete_subtrees, consistency_ranges, inclusion_ranges
from voile.records.audit_log.merkle import (
    EMPTY_ROOT,
    grow,
    is_consistent,
    is_included,
    leaf_hash,
    node_hash,
    root_of,
)

LARGEST = 300

# Certificate Transparency's reference tree: eight records and the root after each of them.
RECORDS = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


# --- the definition, written down once more and independently: RFC 9162, 2.1.1 to 2.1.4 ----------


def naive_split(size: int) -> int:
    power = 1
    while 2 * power < size:
        power *= 2
    return power


@cache
def naive_root(start: int, end: int) -> bytes:
    if end == start:
        return hashlib.sha256().digest()
    if end - start == 1:
        return hashlib.sha256(b"\x00record %d" % start).digest()
    middle = start + naive_split(end - start)
    return hashlib.sha256(b"\x01" + naive_root(start, middle) + naive_root(middle, end)).digest()


def naive_path(index: int, start: int, end: int) -> list[bytes]:
    if end - start <= 1:
        return []
    middle = start + naive_split(end - start)
    if index < middle:
        return [*naive_path(index, start, middle), naive_root(middle, end)]
    return [*naive_path(index, middle, end), naive_root(start, middle)]


def naive_proof(old: int, start: int, end: int, whole: bool) -> list[bytes]:
    """SUBPROOF(m, D[start:end], b), with m counted from the start of the log."""
    if old == end:
        return [] if whole else [naive_root(start, end)]
    middle = start + naive_split(end - start)
    if old <= middle:
        return [*naive_proof(old, start, middle, whole), naive_root(middle, end)]
    return [*naive_proof(old, middle, end, False), naive_root(start, middle)]


class Incremental:
    """The tree as the log keeps it: completed subtrees by their last leaf, and the right edge."""

    def __init__(self, size: int) -> None:
        self.completed: list[list[bytes]] = []
        self.roots = [EMPTY_ROOT]
        edge = b""
        for number in range(size):
            edge, done = grow(number, edge, leaf_hash(b"record %d" % number))
            self.completed.append(done)
            self.roots.append(root_of(edge))

    def hash(self, start: int, end: int) -> bytes:
        nodes = complete_subtrees(start, end)
        return root_of(
            b"".join(self.completed[((p + 1) << level) - 1][level] for level, p in nodes)
        )


@pytest.fixture(scope="module")
def tree() -> Incremental:
    return Incremental(LARGEST)


# --- vectors -------------------------------------------------------------------------------------


def test_the_reference_roots_come_out_for_every_size() -> None:
    edge = b""
    assert root_of(edge).hex() == ROOTS[0]
    for number, record in enumerate(RECORDS):
        edge, _ = grow(number, edge, leaf_hash(record))
        assert root_of(edge).hex() == ROOTS[number + 1]


def test_a_reference_path_and_a_reference_proof_verify() -> None:
    path = [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
    steps = [bytes.fromhex(text) for text in path]
    assert is_included(leaf_hash(RECORDS[0]), 0, 8, steps, bytes.fromhex(ROOTS[8]))
    proof = [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]
    steps = [bytes.fromhex(text) for text in proof]
    assert is_consistent(6, 8, steps, bytes.fromhex(ROOTS[6]), bytes.fromhex(ROOTS[8]))


def test_a_node_cannot_be_passed_off_as_a_record() -> None:
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != node_hash(left, right)


# --- all sizes to 300 ----------------------------------------------------------------------------


def test_incremental_roots_are_the_recursive_ones(tree: Incremental) -> None:
    assert tree.roots == [naive_root(0, size) for size in range(LARGEST + 1)]


def test_every_inclusion_proof_is_the_recursive_one_and_verifies(tree: Incremental) -> None:
    for size in range(1, LARGEST + 1):
        root = tree.roots[size]
        for index in range(size):
            path = [tree.hash(*part) for part in inclusion_ranges(index, size)]
            assert path == naive_path(index, 0, size)
            assert is_included(naive_root(index, index + 1), index, size, path, root)


def test_every_consistency_proof_is_the_recursive_one_and_verifies(tree: Incremental) -> None:
    for new in range(1, LARGEST + 1):
        for old in range(1, new + 1):
            proof = [tree.hash(*part) for part in consistency_ranges(old, new)]
            assert proof == naive_proof(old, 0, new, True)
            assert is_consistent(old, new, proof, tree.roots[old], tree.roots[new])


# --- what must not verify ------------------------------------------------------------------------


def test_a_proof_holds_for_one_leaf_one_place_one_size_and_one_root(tree: Incremental) -> None:
    chance = random.Random(1)
    for _ in range(3000):
        size = chance.randrange(2, LARGEST)
        index = chance.randrange(size)
        leaf, root = naive_root(index, index + 1), tree.roots[size]
        path = naive_path(index, 0, size)
        other = chance.choice([n for n in range(size) if n != index])
        assert not is_included(naive_root(other, other + 1), index, size, path, root)
        assert not is_included(leaf, other, size, path, root)
        assert not is_included(leaf, index, size, path, tree.roots[size + 1])
        assert not is_included(leaf, index, size, path[:-1], root)
        assert not is_included(leaf, index, size, [*path, root], root)
        assert not is_included(leaf, size, size, path, root)
        assert not is_included(leaf, index - size, size, path, root)


def test_a_proof_with_a_size_of_another_shape_does_not_hold(tree: Incremental) -> None:
    """The size is signed with the root, so only sizes whose trees have another shape can differ."""
    for size in range(2, 64):
        for index in range(size):
            path = naive_path(index, 0, size)
            shape = inclusion_ranges(index, size)
            leaf, root = naive_root(index, index + 1), tree.roots[size]
            for claimed in range(1, 64):
                sides = [part[0] > index for part in shape]
                claimed_sides = (
                    [part[0] > index for part in inclusion_ranges(index, claimed)]
                    if index < claimed
                    else None
                )
                assert is_included(leaf, index, claimed, path, root) == (sides == claimed_sides)


def test_a_consistency_proof_holds_for_its_two_trees_only(tree: Incremental) -> None:
    chance = random.Random(2)
    for _ in range(3000):
        new = chance.randrange(3, LARGEST)
        old = chance.randrange(1, new)
        proof = naive_proof(old, 0, new, True)
        one, two = tree.roots[old], tree.roots[new]
        assert not is_consistent(old, new, proof, tree.roots[old - 1], two)
        assert not is_consistent(old, new, proof, one, tree.roots[new + 1])
        assert not is_consistent(old, new, proof, two, one)
        assert not is_consistent(new, old, proof, two, one)
        assert not is_consistent(old, new, proof[:-1], one, two)
        assert not is_consistent(old, new, [*proof, two], one, two)
        flipped = bytearray(b"".join(proof))
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        changed = [bytes(flipped[i : i + 32]) for i in range(0, len(flipped), 32)]
        assert not is_consistent(old, new, changed, one, two)


@pytest.mark.parametrize(
    ("old", "new", "proof", "old_root", "new_root", "holds"),
    [
        (0, 0, [], EMPTY_ROOT, EMPTY_ROOT, True),
        (0, 5, [], EMPTY_ROOT, b"5" * 32, True),
        (0, 5, [b"x" * 32], EMPTY_ROOT, b"5" * 32, False),
        (0, 5, [], b"0" * 32, b"5" * 32, False),
        (0, 0, [], EMPTY_ROOT, b"0" * 32, False),
        (5, 5, [], b"5" * 32, b"5" * 32, True),
        (5, 5, [], b"5" * 32, b"6" * 32, False),
        (5, 5, [b"5" * 32], b"5" * 32, b"5" * 32, False),
        (3, 5, [], b"5" * 32, b"5" * 32, False),
        (4, 5, [], b"5" * 32, b"5" * 32, False),
        (-1, 5, [], b"5" * 32, b"5" * 32, False),
        (6, 5, [], b"5" * 32, b"5" * 32, False),
        (4, 5, [b"short"], b"5" * 32, b"5" * 32, False),
    ],
)
def test_the_edges_of_consistency(
    old: int, new: int, proof: list[bytes], old_root: bytes, new_root: bytes, holds: bool
) -> None:
    assert is_consistent(old, new, proof, old_root, new_root) is holds
