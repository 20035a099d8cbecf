"""`gpuforge rule`: the page of a finding, in the terminal."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from gpuforge.cli.options import errors_as_json
from gpuforge.cli.terminal import result, results_console

if TYPE_CHECKING:
    from gpuforge.audit.rules.rule import Rule

_PART = re.compile(r"^\*\*(What|Why it breaks|Fix|Bad|Good|Seen in):\*\* (.*)$", re.MULTILINE)


class _Code(click.ParamType["Rule"]):
    """A code of the audit."""

    name = "code"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rule:
        from gpuforge.audit.rules import RULES

        found = next((rule for rule in RULES if rule.code == str(value).upper()), None)
        if found is None:
            self.fail(f"there is no finding {value}: `gpuforge rule` lists them", param, ctx)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from gpuforge.audit.rules import RULES

        return [
            CompletionItem(rule.code, help=rule.title)
            for rule in RULES
            if rule.code.startswith(incomplete.upper())
        ]


@click.command("rule")
@click.argument("rule", required=False, type=_Code(), metavar="[CODE]")
@click.option("--all", "every", is_flag=True, help="Every page, instead of a list of the codes.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    callback=errors_as_json,
)
def command(rule: Rule | None, *, every: bool, form: str) -> None:
    """Explain a finding of the audit: what it is, why it breaks, how to mend it, with a bad and a good example.

    CODE is that of the audit's report, such as GF201. Without one, the codes are listed.
    """
    from gpuforge.audit.report.sarif import linkless, markdown
    from gpuforge.audit.rules import RULES

    if rule and every:
        raise click.UsageError("--all is for every code: give no CODE")
    rules = [rule] if rule else sorted(RULES, key=lambda each: each.code)
    if form == "json":
        data = {"schema": 1, "rules": [_data(each, markdown(each.code)) for each in rules]}
        result([json.dumps(data, indent=2, ensure_ascii=False), "\n"])
    elif rule or every:
        _show("\n\n".join(f"# {each.code}: {each.title}\n\n{linkless(each.code)}" for each in rules))
    else:
        result(f"{each.code}  {each.severity:7}  {each.title}\n" for each in rules)


def _show(page: str) -> None:
    """Write a page: laid out on a terminal, in a pipe as it is."""
    if not sys.stdout.isatty():
        result([page, "\n"])
        return
    from rich.markdown import Markdown

    results_console().print(Markdown(page))


def _data(rule: Rule, page: str) -> dict[str, str]:
    parts = {name.lower().replace(" ", "_"): text for name, text in _PART.findall(page)}
    return {"code": rule.code, "severity": rule.severity, "title": rule.title, **parts, "page": page}
