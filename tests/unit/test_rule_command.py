"""`gpuforge rule`: every finding has its page, in the terminal and as data."""

import json

from click.testing import CliRunner

from gpuforge.audit.rules import RULES
from gpuforge.cli.main import cli
from gpuforge.cli.rule import command


def test_the_page_of_a_code(capsys):
    assert cli.main(["rule", "gf204"], standalone_mode=False) is None
    page = capsys.readouterr().out
    assert page.startswith("# GF204: the requirements bring another CUDA major than the one that is NEEDED\n")
    assert "\n**Why it breaks:** " in page
    assert "\n**Fix:** " in page


def test_every_page_as_data():
    answer = json.loads(CliRunner().invoke(cli, ["rule", "--all", "--format", "json"]).stdout)
    assert answer["schema"] == 1
    assert [each["code"] for each in answer["rules"]] == sorted(rule.code for rule in RULES)
    for each in answer["rules"]:
        assert each.keys() == {
            *("code", "severity", "title", "what", "why_it_breaks", "fix", "bad", "good", "seen_in", "page")
        }, each["code"]


def test_codes_are_listed_and_completed():
    listed = CliRunner().invoke(cli, ["rule"]).stdout.splitlines()
    assert [line.split()[0] for line in listed] == sorted(rule.code for rule in RULES)
    (code,) = command.params[:1]
    found = code.type.shell_complete(command.make_context("rule", []), code, "gf71")
    assert [each.value for each in found] == [rule.code for rule in RULES if rule.code.startswith("GF71")]


def test_an_unknown_code():
    answer = CliRunner().invoke(cli, ["rule", "GF999"])
    assert answer.exit_code == 2
    assert "there is no finding GF999: `gpuforge rule` lists them" in answer.stderr
