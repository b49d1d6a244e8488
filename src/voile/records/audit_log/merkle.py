"""The tree of RFC 6962 and 9162, section 2.1: hashes, growth, and checking proofs.

A leaf and an inner node are hashed with different first bytes; without them an inner node could be
passed off as a record. All checks take sizes and roots from the caller, who has them from a signed
checkpoint; a proof contributes nothing but hashes.

Pure: standard library only. The verifier stands on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, TypeAlias

Hash: TypeAlias = bytes
"""32 bytes."""
Edge: TypeAlias = bytes
"""Roots of the complete subtrees of a tree joined, from left (largest) to right: one for each 1 bit
of its size. With the size it is all one needs to append, and to know the root."""

HASH_SIZE: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


def leaf_hash(record: bytes) -> Hash:
    return hashlib.sha256(b"\x00" + record).digest()


def node_hash(left: Hash, right: Hash) -> Hash:
    return hashlib.sha256(b"\x01" + left + right).digest()


def grow(size: int, edge: Edge, leaf: Hash) -> tuple[Edge, list[Hash]]:
    """Append one leaf; the new edge, and the subtrees it completed, from the leaf itself upward.

    Appending is adding one to a binary number: each carry joins two complete subtrees.
    """
    completed = [leaf]
    while size & 1:
        leaf = node_hash(edge[-HASH_SIZE:], leaf)
        edge = edge[:-HASH_SIZE]
        completed.append(leaf)
        size >>= 1
    return edge + leaf, completed


def root_of(edge: Edge) -> Hash:
    """The root of the tree with this edge (RFC 9162, 2.1.1)."""
    if not edge:
        return EMPTY_ROOT
    root = edge[-HASH_SIZE:]
    for start in range(len(edge) - 2 * HASH_SIZE, -1, -HASH_SIZE):
        root = node_hash(edge[start : start + HASH_SIZE], root)
    return root


def is_included(leaf: Hash, index: int, size: int, path: Sequence[Hash], root: Hash) -> bool:
    """Whether `leaf` is number `index` of the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size or any(len(step) != HASH_SIZE for step in path):
        return False
    node, last, current = index, size - 1, leaf
    for step in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            current = node_hash(step, current)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            current = node_hash(current, step)
        node, last = node >> 1, last >> 1
    return last == 0 and current == root


def is_consistent(
    old_size: int, new_size: int, path: Sequence[Hash], old_root: Hash, new_root: Hash
) -> bool:
    """Whether the new tree begins with all records of the old one (RFC 9162, 2.1.4.2).

    The cases the RFC leaves to the caller: from nothing, everything follows by an empty proof; a
    tree is consistent with itself by an empty proof.
    """
    if not 0 <= old_size <= new_size or any(len(step) != HASH_SIZE for step in path):
        return False
    if old_size == 0:
        return not path and old_root == EMPTY_ROOT and (new_size > 0 or new_root == EMPTY_ROOT)
    if old_size == new_size:
        return not path and old_root == new_root
    return _extends(old_size, new_size, path, old_root, new_root)


def _extends(
    old_size: int, new_size: int, path: Sequence[Hash], old_root: Hash, new_root: Hash
) -> bool:
    steps = list(path)
    if old_size & (old_size - 1) == 0:  # a complete tree is its own first step
        steps.insert(0, old_root)
    if not steps:
        return False
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, step)
        node, last = node >> 1, last >> 1
    return last == 0 and old == old_root and new == new_root
