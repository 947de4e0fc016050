"""`Session`: what a client knows of one run of the protocol, and how it is stored."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from cotempo.privacy.secure_sum.envelopes import Shares

SHARED, MASKED, ECHOED, REVEALED = "shared", "masked", "echoed", "revealed"


@dataclass
class Session:
    """One run of the protocol as one client sees it.

    Attributes
    ----------
    id, step
        The session's name, unique in the run, and the step it belongs to.
    names, holders, peer_keys
        The clients invited, those among them who hold this client's shares, and their verified keys of this run.
    stage
        How far it has come: shared, masked, echoed, revealed. It never goes back.
    mask_secret, seed, private
        The secret of the mask key and the seed of the client's own mask, both shared; and a key for random numbers,
        never shared.
    shares
        By owner, what this client holds; at first only of itself.
    kind, members, agreed, request
        What is summed, sizes or data; who shared; the digest of all that clients must agree on before masking, and of
        the question that was answered. Known from masking on.
    survivors
        Whose masked messages came, as this client signed it last; all members at first.
    """

    id: str
    step: int
    names: list[str]
    holders: list[str]
    peer_keys: dict[str, str]
    mask_secret: int
    seed: int
    private: str
    shares: dict[str, Shares]
    stage: str = SHARED
    kind: str = ""
    members: list[str] = field(default_factory=list)
    agreed: str = ""
    request: str = ""
    survivors: list[str] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """Serialise."""
        shares = {owner: [part.hex() for part in held] for owner, held in self.shares.items()}
        return json.dumps({**asdict(self), "shares": shares}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Session:
        """Read what `to_bytes` wrote."""
        tree = json.loads(data)
        shares = {owner: Shares(*map(bytes.fromhex, held)) for owner, held in tree["shares"].items()}
        return cls(**{**tree, "shares": shares})


def sessions_to_bytes(*sessions: Session | None) -> bytes:
    """Serialise sessions, some of which may not be open."""
    return b"\n".join(b"" if session is None else session.to_bytes() for session in sessions)


def sessions_from_bytes(data: bytes) -> list[Session | None]:
    """Read what `sessions_to_bytes` wrote."""
    return [Session.from_bytes(line) if line else None for line in data.split(b"\n")]


@dataclass
class Journal:
    """What a client must remember of a run for good.

    Attributes
    ----------
    revealed
        By step and kind, the digest of the survivors whose sum this client helped to reveal.
    sessions
        By step, how many sessions were opened.
    summed
        The phases whose answers were withheld for a sum.
    noised
        By step, among how many clients a noised answer must be summed.
    """

    revealed: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, int] = field(default_factory=dict)
    summed: list[str] = field(default_factory=list)
    noised: dict[str, int] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Serialise."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Journal:
        """Read what `to_bytes` wrote."""
        return cls(**json.loads(data))
