"""tools/docs: what the build of the documentation site refuses."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The repository's files, in a folder that tests may break."""
    folder = tmp_path_factory.mktemp("copy")
    subprocess.run(["sh", "-c", f'git -C "{ROOT}" ls-files -z | tar -C "{ROOT}" --null -T - -cf - '
                    f'| tar -xf - -C "{folder}"'], check=True)
    return folder


def build(folder):
    return subprocess.run([folder / "tools/docs", "--check"], capture_output=True, text=True, check=False)


def test_site_builds_into_a_folder_of_its_version(copy, tmp_path):
    done = subprocess.run([copy / "tools/docs", "--version", "1.2", "--out", tmp_path], check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"version": "1.2"' in (tmp_path / "versions.json").read_text()
    site = tmp_path / "1.2"
    assert "guides/how-to.html" in (site / "llms.txt").read_text()
    assert (site / "repository/examples/horovod.yaml").exists()
    readme = (site / "repository/index.html").read_text()
    assert 'href="../guides/getting-started.html"' in readme and 'src="../images/demo.svg"' in readme
    assert 'href="examples/index.html"' in readme


@pytest.mark.parametrize("page, text, says", [
    ("guides/queues.md", "[x](no-such-page.md)", "no-such-page.md"),
    ("guides/queues.md", "[x](../reference/cli.md#no-such-anchor)", "no-such-anchor"),
    ("guides/no-shelf.md", "# A page", "not included in the \"nav\""),
])
def test_build_refuses_dead_links_dead_anchors_and_pages_outside_the_navigation(copy, page, text, says):
    file = copy / "docs" / page
    before = file.read_text() if file.exists() else None
    file.write_text(f"{before or ''}\n{text}\n")
    done = build(copy)
    if before is None:
        file.unlink()
    else:
        file.write_text(before)
    assert done.returncode != 0 and says in done.stderr, done.stderr
