"""`gpuforge schema`: prints the schema of manifests, as a JSON Schema or as the reference page."""

import json

import click


@click.command("schema")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    default="json",
    help="json: a JSON Schema (2020-12) for editors; markdown: the reference page.",
)
def command(form: str) -> None:
    """Print the schema of gpuforge.toml.

    For completion and checking in an editor: `gpuforge schema > gpuforge.schema.json`, and
    `#:schema ./gpuforge.schema.json` as the first line of the manifest.
    """
    if form == "json":
        from gpuforge.manifest.schema import json_schema

        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    else:
        from gpuforge.manifest.schema import reference

        click.echo(reference(), nl=False)
