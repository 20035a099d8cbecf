"""A hook of mkdocs: the README is the home page, recipes and CONTRIBUTING.md are pages, and all links follow."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Pages of the site that are not in docs/: where they are in the tree, and on the site.
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"} | {
    page.relative_to(ROOT).as_posix(): page.relative_to(ROOT).as_posix()
    for page in ROOT.glob("recipes/*/README.md")
}
_SOURCE = {site: source for source, site in PAGES.items()}
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere in the tree."""
    for source, site in PAGES.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links relative to the site; what is no page of it, such as a source file, is named without a link."""
    here = page.file.src_uri
    folder = posixpath.dirname(_SOURCE.get(here, f"docs/{here}"))

    def followed(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        for path in (target, f"{target}/README.md"):
            site = PAGES.get(path) or path.removeprefix("docs/")
            if files.get_file_from_path(site):
                return f"]({posixpath.relpath(site, posixpath.dirname(here) or '.')}{link[2] or ''})"
        return f"](#{_ELSEWHERE})"

    text = _LINK.sub(followed, markdown)
    return re.sub(rf"\[([^\]]*)\]\(#{_ELSEWHERE}\)", r"\1", text)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Stop at a block of code that GitHub reads and the site does not."""
    if "```" in html:
        raise PluginError(f"{page.file.src_uri}: a block of code is shown as text")


_ELSEWHERE = "not-on-the-site"
