"""`cotempo client requests`, `approve`, `refuse`, `pause` and `page`: what a site is asked, and what people decide."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotempo.cli.consortium import deploy
from cotempo.cli.consortium.deploy import Kit
from cotempo.cli.output import Output, command, count

if TYPE_CHECKING:
    from cotempo.engines.flower.site.service import SiteService
    from cotempo.engines.flower.site.words import RequestWords

client = deploy.client
Started = Annotated[str, typer.Argument(metavar="RUN", help="The run's identity, or how it begins.")]


def _service(kit: Path) -> "SiteService":
    from cotempo.engines.flower.site.service import SiteService
    from cotempo.engines.flower.site.settings import SiteSettings

    return SiteService(SiteSettings.from_kit(kit.resolve()), kit.resolve() / "home")


@command(client, "requests")
def show_requests(
    kit: Kit,
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="Show this one in full; else all are listed.")] = "",
) -> Output:
    """List the runs this site was asked to join, or show one in plain words."""
    from cotempo.engines.flower.site.words import RequestWords

    service = _service(kit)
    found = [service.inbox.find(run)] if run else service.inbox.requests
    lines, records = [], []
    for request in found:
        words = RequestWords(request, service.settings, service.ledger)
        decision = service.inbox.decision(words.run)
        answer = f"{decision.answer} by {decision.by}" if decision else "waits for a person"
        lines.append(f"{words.run[:8]}  {request.received[:16]}  {words.title}: {answer}")
        lines += list(_describe(words)) if run else []
        records.append({"run": words.run, "received": request.received, "title": words.title, "answer": answer})
    waiting = len(service.inbox.pending)
    lines = lines or ["Nothing was asked."]
    if waiting and not run:
        lines.append(
            f"{count(waiting, 'request')} to decide on: cotempo client requests {kit} RUN, then approve or refuse"
        )
    return Output(lines, {"requests": records, "paused": service.inbox.is_paused})


def _describe(words: "RequestWords") -> Iterator[str]:
    """Return a request in plain words."""
    request = words.request
    yield f"  What it is for, in the coordinator's words: {words.purpose or 'nothing was said'}"
    yield f"  {words.about}"
    columns = f": {', '.join(request.columns[:20])}" if request.columns else ""
    yield f"  It would read {words.rows} of your {request.kind}{columns}."
    yield from (f"  Look: {sentence}" for sentence in words.attention)
    for part in words.leaving or []:
        fate = "readable as a sum" if part.is_summed else "readable by itself"
        yield f"  Would leave in phase {part.phase!r}, at most {part.most} times, {fate}:"
        yield from (f"    {size}: {description}" for size, description in part.fields)
    yield f"  {words.noise}"
    with_whom = [f"{one.name} ({count(one.met, 'earlier run')})" for one in words.companions]
    yield f"  With {', '.join(with_whom)}."
    yield f"  {words.compared}"
    yield from (f"  Setting {one.name} = {one.asked}, usually {one.usual}. {one.meaning}" for one in words.unusual)


@command(client, "approve")
def approve_request(
    kit: Kit,
    run: Started,
    like_this: Annotated[
        bool, typer.Option("--like-this", help="Also approve later runs that differ in nothing but their seed.")
    ] = False,
) -> Output:
    """Approve a run that waits: this once, or with all runs like it."""
    inbox = _service(kit).inbox
    request = inbox.find(run)
    inbox.approve(request, {} if like_this else None)
    identity = request.agreed.run
    also = " Runs like it are answered from now on." if like_this else ""
    return Output([f"Approved run {identity[:8]}.{also}"], {"run": identity, "answer": "approved"})


@command(client, "refuse")
def refuse_request(
    kit: Kit,
    run: Started,
    reason: Annotated[str, typer.Option("--reason", help="Why; the coordinator reads it, so quote no data.")] = "",
) -> Output:
    """Refuse a run, or stop taking part in one that was approved."""
    inbox = _service(kit).inbox
    request = inbox.find(run)
    inbox.refuse(request, reason)
    identity = request.agreed.run
    return Output([f"Refused run {identity[:8]}."], {"run": identity, "answer": "refused"})


@command(client, "pause")
def pause_client(kit: Kit, off: Annotated[bool, typer.Option("--off", help="Answer again.")] = False) -> Output:
    """Answer nothing until told otherwise; new runs wait, and one that has begun can be resumed."""
    inbox = _service(kit).inbox
    inbox.pause(not off)
    line = "This site answers again." if off else f"Paused. To answer again: cotempo client pause {kit} --off"
    return Output([line], {"paused": not off})


@command(client, "page")
def show_page(
    kit: Kit, port: Annotated[int, typer.Option(help="A port of this machine; by default a free one.")] = 0
) -> Output:
    """Show this site's page in the browser: requests to decide on, what left, what it brought; until Ctrl-C."""
    from cotempo.pages.serving import PageServer
    from cotempo.pages.site import make_site_app

    _service(kit)  # a kit that is not filled in is refused here
    secret = secrets.token_urlsafe(24)
    with PageServer(make_site_app(kit.resolve(), secret), secret=secret, port=port) as server:
        print(f"Open {server.url}\nThe address holds a secret: do not pass it on. Ctrl-C ends the page.", flush=True)
        server.wait()
    return Output(["The page has ended."], {})
