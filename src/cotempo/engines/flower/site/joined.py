"""`JoinedRun`: a run that a site takes part in, and `Accepted`, what it keeps of it on its disk."""

import dataclasses

from cotempo.federation.site import Site
from cotempo.privacy.contract import Contract
from cotempo.privacy.questions import QuestionLog
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.settings import Settings


class Accepted(Settings):
    """A run as the site keeps it: its contract, and the fingerprint of the table it was accepted for."""

    contract: str
    table: str
    history: list[list[str]] | None = None  # of all participants, once their signatures came


@dataclasses.dataclass
class JoinedRun:
    """A run the site takes part in."""

    contract: Contract
    site: Site
    table: str
    questions: QuestionLog
    history: list[list[str]] | None = None
    sums: list[list[str]] = dataclasses.field(default_factory=list)  # entered since the site started

    @property
    def survivors(self) -> list[str]:
        """Over whom the present secure sum is."""
        (shield,) = [shield for shield in self.site.shields if isinstance(shield, SecureSumShield)]
        session = shield.client(self.site.client, self.contract.run).session
        return session.survivors if session else []
