"""`make_site_app`: the site's page, for the person who decides; it works without JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from cotempo.engines.flower.site.daemon import SiteDaemon
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.engines.flower.site.words import RequestWords
from cotempo.errors import CotempoError, ParameterError
from cotempo.pages.history import SiteHistory
from cotempo.pages.serving import make_app, make_templates, page, read_form
from cotempo.privacy.approval import BY_PERSON, Request
from cotempo.privacy.ledger import LedgerChanged
from cotempo.runs.dry_run import dry_run

MOST_REFUSALS = 20


class SitePage:
    """What the page shows, read again from the kit's folder for every request."""

    def __init__(self, kit: Path, secret: str):
        self.kit, self.secret = kit, secret
        self.templates = make_templates()
        self.templates.filters["date"] = lambda text: f"{datetime.fromisoformat(text):%d %B %Y, %H:%M} UTC"

    @property
    def service(self) -> SiteService:
        """The site as it is now; its ledger is read when it is needed."""
        return SiteService(SiteSettings.from_kit(self.kit), self.kit / "home")

    def show(self, template: str, service: SiteService, status: int = 200, **content: Any) -> Response:
        """Return a page with what all pages have, such as whether the record of what left is whole."""
        is_whole, said = SiteHistory(service).verdict
        return page(
            self.templates, template, status, root=f"/{self.secret}", site=service.settings.name,
            changed="" if is_whole else said, is_paused=service.inbox.is_paused,
            waiting=len(service.inbox.pending), **content,
        )  # fmt: skip

    def back(self, place: str = "") -> Response:
        """Return to a page after a form, so that reloading does not send it again."""
        return RedirectResponse(f"/{self.secret}/{place}", 303)

    def words(self, service: SiteService, request: Request) -> RequestWords:
        """Return a request in words."""
        return RequestWords(request, service.settings, service.ledger)

    def inbox(self, _: WebRequest) -> Response:
        """Show what waits, what was decided and what is approved beforehand."""
        service = self.service
        pending = service.inbox.pending
        decided = [(self.words(service, one), service.inbox.decision(one.agreed.run)) for one in service.inbox.requests]
        return self.show(
            "inbox.html.jinja", service,
            pending=[self.words(service, one) for one in pending],
            decided=[(words, decision) for words, decision in decided if decision],
            rules={run: (rule, self.words(service, rule.request)) for run, rule in service.inbox.rules.items()},
            refusals=refused_by_rules(service),
            asks=service.settings.approval.ask, is_joined=SiteDaemon(self.kit).pid is not None,
        )  # fmt: skip

    def request(self, asked: WebRequest, problem: str = "", tried: list[str] | None = None) -> Response:
        """Show a request, with forms to decide."""
        service = self.service
        try:
            request = service.inbox.find(asked.path_params["run"])
        except ParameterError as error:
            return self.missing(service, str(error))
        words = self.words(service, request)
        return self.show(
            "request.html.jinja", service, 400 if problem else 200, words=words, contract=request.agreed.digest,
            decisions=service.inbox.decisions(words.run), begun=service.ledger.find_run(words.run),
            ended=service.inbox.ended(words.run), problem=problem, tried=tried,
        )  # fmt: skip

    def shown(self, words: RequestWords) -> str:
        """Return the part of a request's page that says what is asked, to be kept with the decision."""
        template = self.templates.get_template("request.html.jinja")
        content = {"words": words, "ended": None, "tried": None, "root": ""}
        return "".join(template.blocks["shown"](template.new_context(content)))

    async def decide(self, asked: WebRequest) -> Response:
        """Keep a decision about the very contract that the person saw."""
        form, service = await read_form(asked), self.service
        inbox = service.inbox
        try:
            request = inbox.find(asked.path_params["run"])
            inbox.require_open(request.agreed.run)
            if form.get("contract") != request.agreed.digest:
                raise ParameterError("the form must be of this request; read it again")
            shown = self.shown(self.words(service, request))
            match form.get("choice"):
                case "once":
                    inbox.approve(request, shown=shown)
                case "like":
                    inbox.approve(request, read_ranges(form), shown)
                case "refuse":
                    inbox.refuse(request, form.get("reason", ""), shown)
                case other:
                    raise ParameterError(f"a choice must be once, like or refuse, got {str(other)[:20]!r}")
        except ParameterError as error:
            return self.request(asked, problem=str(error))
        return self.back(f"request/{request.agreed.run}")

    def rehearse(self, asked: WebRequest) -> Response:
        """Run the method here on the site's own table, send nothing, and show what would have left."""
        service = self.service
        try:
            words = self.words(service, service.inbox.find(asked.path_params["run"]))
            table = service.read_table(words.method.kind)
            alone = words.privacy.model_copy(update={"secure_sum": False})  # there is nobody to mask with
            found = dry_run(words.method, {service.settings.name: table}, privacy=alone, progress=False)
        except CotempoError as error:
            return self.request(asked, problem=f"The dry run did not end: {error}")
        return self.request(asked, tried=found.lines())

    async def withdraw(self, asked: WebRequest) -> Response:
        """Withdraw a standing approval."""
        self.service.inbox.withdraw(asked.path_params["run"])
        return self.back()

    async def pause(self, asked: WebRequest) -> Response:
        """Pause the site, or let it answer again."""
        self.service.inbox.pause((await read_form(asked)).get("paused") == "yes")
        return self.back()

    def history(self, _: WebRequest) -> Response:
        """Show everything that left, and whether its record is whole."""
        service = self.service
        return self.show("history.html.jinja", service, history=SiteHistory(service))

    def run(self, asked: WebRequest) -> Response:
        """Show what left for one run, phase by phase."""
        service = self.service
        wanted = asked.path_params["run"]
        found = [run for run in SiteHistory(service).runs if run.entry["run"] == wanted]
        if not found:
            return self.missing(service, "Nothing left for such a run.")
        return self.show("run.html.jinja", service, run=found[0])

    def missing(self, service: SiteService, words: str) -> Response:
        """Say that something is not there."""
        return self.show("missing.html.jinja", service, 404, words=words)

    def broken(self, _: WebRequest, error: Exception) -> Response:
        """Say what is wrong, with all that can still be done; with none of it if the kit cannot be read."""
        try:
            service = self.service
        except CotempoError:
            return page(self.templates, "broken.html.jinja", 500, root=f"/{self.secret}", problem=str(error))
        words = "Requests can be read, and decided on, once the record is whole again."
        return self.show("problem.html.jinja", service, 500, words=words if isinstance(error, LedgerChanged) else error)


def refused_by_rules(service: SiteService) -> list[tuple[str, str]]:
    """Return what the site refused without asking anybody, and when last."""
    found = service.log.refusals.items()
    return [(why, when) for why, when in found if not why.startswith(BY_PERSON)][:MOST_REFUSALS]


def read_ranges(form: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Return the ranges of parameters that a form widened."""
    found = {}
    for name in [key.removeprefix("low.") for key in form if key.startswith("low.")]:
        try:
            low, high = float(form[f"low.{name}"]), float(form[f"high.{name}"])
        except (KeyError, ValueError):
            raise ParameterError(f"a range must be two numbers, {name[:40]!r} has others") from None
        if low != high:
            found[name] = low, high
    return found


def make_site_app(kit: Path, secret: str) -> ASGIApp:
    """Return the site's page as an application under a secret."""
    shown, form = SitePage(kit, secret), ["POST"]
    routes = [
        Route("/", shown.inbox),
        Route("/request/{run}", shown.request),
        Route("/request/{run}/decide", shown.decide, methods=form),
        Route("/request/{run}/dry-run", shown.rehearse, methods=form),
        Route("/approval/{run}/withdraw", shown.withdraw, methods=form),
        Route("/pause", shown.pause, methods=form),
        Route("/history", shown.history),
        Route("/run/{run}", shown.run),
    ]
    css = files("cotempo.pages").joinpath("site.css").read_text(encoding="utf-8")
    return make_app(routes, secret=secret, css=css, errors={CotempoError: shown.broken})
