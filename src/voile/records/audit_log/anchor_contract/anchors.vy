# pragma version 0.4.3
# pragma evm-version paris
"""
@title Checkpoints of audit logs
@notice Keeps, for each log, how many records it had and their root. Sizes only grow, so a log that
        is set back or rewritten no longer extends what stands here. A log is known by the SHA-256
        of its name; nothing but such digests, sizes and roots is ever stored.
"""

event CheckpointAnchored:
    origin: indexed(bytes32)
    size: indexed(uint64)
    root: bytes32

event OwnershipOffered:
    owner: indexed(address)
    offered_to: indexed(address)

event OwnershipTransferred:
    previous_owner: indexed(address)
    owner: indexed(address)

struct Checkpoint:
    size: uint64
    root: bytes32

owner: public(address)
offered_to: public(address)
latest: public(HashMap[bytes32, Checkpoint])


@deploy
def __init__():
    self.owner = msg.sender
    log OwnershipTransferred(previous_owner=empty(address), owner=msg.sender)


@external
def anchor(origin: bytes32, size: uint64, root: bytes32):
    assert msg.sender == self.owner, "only the owner anchors"
    assert size > self.latest[origin].size, "sizes only grow"
    self.latest[origin] = Checkpoint(size=size, root=root)
    log CheckpointAnchored(origin=origin, size=size, root=root)


@external
def offer_ownership(to: address):
    """
    @notice In two steps: an address that nobody holds the key of cannot accept.
    """
    assert msg.sender == self.owner, "only the owner offers"
    self.offered_to = to
    log OwnershipOffered(owner=msg.sender, offered_to=to)


@external
def accept_ownership():
    assert msg.sender == self.offered_to, "it was offered to another address"
    log OwnershipTransferred(previous_owner=self.owner, owner=msg.sender)
    self.owner = msg.sender
    self.offered_to = empty(address)
