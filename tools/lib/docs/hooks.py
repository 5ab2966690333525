"""What the documentation site needs beside mkdocs: the records of decisions in its navigation, the files
of the repository to which pages link, and llms.txt."""

import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[3]
# A link of Markdown to a file, with or without an anchor.
LINK = re.compile(r"(?<!\!)\[([^\]]*)\]\((?![a-z]+:)([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
BESIDE = "repository"  # the folder of the site that holds files from outside docs/
TEXT = (".yaml", ".py", ".sh", ".sbatch", ".json", ".toml", ".h", ".cc", ".xml", ".ipynb")


def on_config(config):
    for section in config.nav:
        for title, pages in section.items() if isinstance(section, dict) else ():
            section[title] = [_records(page) for page in pages]
    return config


def _records(page):
    """A folder's pages in place of the folder: its README.md first."""
    if not isinstance(page, dict):
        return page
    return {title: [f"{folder}README.md", *(
        f"{folder}{path.name}" for path in sorted((ROOT / "docs" / folder).glob("[0-9]*.md")))]
        for title, folder in page.items()}


def on_files(files, config):
    files.append(File.generated(config, "site.css", abs_src_path=str(
        pathlib.Path(__file__).with_name("site.css"))))
    linked = set()
    for file in files.documentation_pages():
        linked |= set(_outside(file.content_string, file.src_uri))
    for path in sorted(linked):
        if (ROOT / path).suffix in TEXT:
            files.append(File.generated(config, f"{BESIDE}/{path}", abs_src_path=str(ROOT / path)))
    return files


def _outside(markdown, page):
    for match in LINK.finditer(markdown):
        if path := _path_outside(match[2], page):
            yield path


def _path_outside(target, page):
    """Where a page's link leads if that is a file of the repository outside docs/, else None."""
    path = os.path.normpath(os.path.join("docs", os.path.dirname(page), target))
    return None if path.startswith(("docs/", "..")) or not (ROOT / path).exists() else path


def on_page_markdown(markdown, page, config, files):
    """Links out of docs/ lead to the site's copy; to what has none, such as a folder, leads its name."""
    def replaced(match):
        path = _path_outside(match[2], page.file.src_uri)
        if path is None:
            return match[0]
        if (ROOT / path).suffix not in TEXT:
            return f"{match[1]} (`{path}`)" if path not in match[1] else match[1]
        here = os.path.dirname(page.file.src_uri) or "."
        return f"[{match[1]}]({os.path.relpath(f'{BESIDE}/{path}', here)})"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def on_post_build(config):
    """llms.txt (llmstxt.org): each page with the question that it answers."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for section in config.nav:
        for title, pages in section.items() if isinstance(section, dict) else ():
            lines += [f"## {title}", "", *(_entry(page) for page in pages if isinstance(page, str)), ""]
    pathlib.Path(config.site_dir, "llms.txt").write_text("\n".join(lines))


def _entry(page):
    heading, _, text = (ROOT / "docs" / page).read_text().partition("\n")
    first = text.strip().split("\n\n")[0].replace("\n", " ")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    return f"- [{heading.lstrip('# ')}]({page.removesuffix('.md')}.html): {plain}"
