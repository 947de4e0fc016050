"""The secure sum: a server learns the sum of what clients send, and nothing about any single addend.

After Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning, CCS 2017; above 200 clients
each has about 100 neighbours, after Bell et al., Secure single-server aggregation with (poly)logarithmic overhead, CCS
2020. Masks modulo 2^64 are ChaCha20 key streams; signatures are Ed25519, agreements X25519, envelopes
ChaCha20-Poly1305, keys are derived by HKDF-SHA256; all from the package `cryptography`.

Stages of one sum among n clients of which t = floor(2n/3) + 1 must stay; n is at least 3:

1. *keys*, once a run. Each client announces an X25519 key, bound to the run and signed with its long-term key. Peers
   check it against the key they have pinned.
2. *shares*. A session with a random name is opened. Each client u draws a fresh mask key and a seed, splits both by
   Shamir's scheme, t of n, and seals a share of each for every other, with its public mask key.
3. *masked*. Each client gets the envelopes for it and what its method is asked. The answer x_u stays at the client,
   which sends x_u + mask(seed_u) + sum over v > u of mask(u, v) - sum over v < u of mask(v, u), where mask(u, v) comes
   from the agreement of the two mask keys. The masks of pairs cancel in the sum over all. It signs that all who shared
   survive, together with what all were told before (who shared, which fixed-point scales).
4. *echo*, only if somebody left. The server says whose masked messages came. Each client signs that smaller set, from
   then on refuses to reveal for the larger one, and never signs another one in the session.
5. *unmask*. Given t valid signatures of the set it signed last, each client reveals, once, per peer, EITHER its share
   of the seed, if the peer's masked message is in the sum, OR its share of the mask key, if it is not. The server puts
   seeds and keys together and removes the masks that are left. With both it could read a single addend, so no client
   gives both. In the same message it seals the shares of the next session.

So a step takes two exchanges, 3 and 5; the first one of a run takes 1 and 2 before them, and 3 and 5 twice where scales
are agreed on.

Between sites, 5 needs no exchange of its own while nobody leaves: with 3 the server announces the next session, sites
show each other their signatures through the server as they send what they masked, and reveal unasked. It is as safe as
being asked, for these reasons:

- What a client reveals, and when, does not depend on who brings it the signatures: t valid ones, of one set, of one
  layout, in this session. The server was never trusted with them; it can withhold or forge them, as before.
- Signatures say who masked and nothing else; that peers and the server see them is what they are for.
- A client that has revealed for all signs no smaller set any more (4), so it is still either the seed or the key. A
  word counts once the server has stored what its sender masked, so that whoever leaves after that is in the sum, and
  any t of the others open its seed. A server that lost a stored message loses the sum, and cannot get another one.
- Session, mask key, seed and shares are drawn for every sum, as ever; the next session is opened by the revealing
  client in the same message as without it, only its name is known one message earlier. Names are not secret.
- What is late or false leads back to 4 and 5 as they are written here.

Why two signatures do no harm: to open an addend the server needs t holders who reveal the seed, for the set of all, and
t who reveal the key, for a smaller one. Each honest client reveals for one set. If c clients collude with the server,
both is possible only for 2 t <= n + c, that is for c of more than a third of n; the same bound as if each signed once.

A client that cannot use what a peer sent it, a key that is not signed or an envelope that does not open, accuses the
peer instead of going on. Nothing was revealed then: one of the two is left out (`disputes`), and a new session is
opened among the others.

Fewer than t left in any stage: the step fails and nothing is revealed. A client that crashed is a client that left;
one with a vault on disk can go on where it was.

What differs from the paper: mask keys are drawn for every session instead of once, because a key that is put together
for a client that left in one step would open what the same client sent in all others. Public mask keys travel inside
the envelopes, whose keys are agreed on once a run. Clients sign the scales as well: a server that gave one client a
finer scale than the others would read it out of the sum.

What it does not hide: the sum itself (see the ledger and differential privacy for sums that differ by one client), who
took part, when, sizes of messages, the largest power of four of fields whose scale is agreed on (`fixed_point`), and
what colluding peers subtract: of n clients, those outside of a collusion are hidden among themselves. A client that
lies can spoil the sum; one that seals false shares of its own seed stops the step, under its name, because nobody may
reveal a second sum of a step without it.

`client` is the part of a client, `reducer` that of the server, `shield` connects the first to a site.
"""
