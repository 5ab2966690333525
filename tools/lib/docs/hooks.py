"""What the documentation site needs beside mkdocs: the records of decisions in its navigation, the files
of the repository to which pages link, and llms.txt."""

import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[3]
# A link of Markdown to a file, with or without an anchor.
LINK = re.compile(r"(?<!\!)\[([^\]]*)\]\((?![a-z]+:)([^)\s#]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"(!\[[^\]]*\]\()(?![a-z]+:)([^)\s]+\))")
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
        elif path.endswith(".md"):
            text = _as_of_the_site((ROOT / path).read_text(), path, linked)
            files.append(File.generated(config, f"{BESIDE}/{path}", content=text))
    return files


def _as_of_the_site(markdown, path, copied):
    """A page from outside docs/, with links that lead to the site's pages and copies."""
    folder = os.path.dirname(path)

    def moved(target):
        whole = os.path.normpath(os.path.join(folder, target))
        if whole.startswith("docs/"):
            return os.path.relpath(whole.removeprefix("docs/"), f"{BESIDE}/{folder}")
        return target if whole in copied and whole.endswith((".md", *TEXT)) else None

    def link(match):
        target = moved(match[2])
        if target is None:
            return _named(match[1], os.path.normpath(os.path.join(folder, match[2])))
        return f"[{match[1]}]({target}{match[3] or ''})"

    def picture(match):
        return f"{match[1]}{moved(match[2][:-1]) or match[2][:-1]})"

    return _outside_code(markdown, lambda part: LINK.sub(link, PICTURE.sub(picture, part)))


def _named(text, path):
    return text if path in text else f"{text} (`{path}`)"


def _outside_code(markdown, change):
    return "".join(part if part.startswith("```") else change(part) for part in FENCE.split(markdown))


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
        if not path.endswith((".md", *TEXT)):
            return _named(match[1], path)
        here = os.path.dirname(page.file.src_uri) or "."
        return f"[{match[1]}]({os.path.relpath(f'{BESIDE}/{path}', here)}{match[3] or ''})"

    if page.file.src_uri.startswith(f"{BESIDE}/"):
        return markdown
    return _outside_code(markdown, lambda part: LINK.sub(replaced, part))


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
