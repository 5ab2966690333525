"""Which tests a change can affect: `tools/test --changed`.

C++ goes by the build graph: a program is affected if one of its objects was compiled from a changed
file, or if its tests name a changed file. A Python test is affected if a changed file

- is the test, a module that it imports, a conftest.py above it or data in its folder,
- is named by one of these, as "docs/reference/metrics.md", or lies in a folder that is, as "worker/python",
- is compiled into a program that one of these names, as "lockstep-operator".

When in doubt a test is affected. What no rule finds is reported, not guessed.
"""

import ast
import functools
import os
import pathlib
import re
import subprocess

# A change to one of these can affect everything.
EVERYTHING = ("CMakeLists.txt", "CMakePresets.json", "cmake/", "pytest.ini", "tests/conftest.py",
              "tests/lib/paths.py", "tools/deps", "tools/test", "tools/lib/common.sh", "tools/lib/build-deps",
              "tools/lib/packages.sh",
              "tools/lib/requirements.txt", "tools/lib/debian-source", "tools/lib/libcurl",
              "tools/lib/prometheus-cpp", "tools/lib/simdjson", "tools/lib/testing/",
              "tests/lib/report_properties.py")
# What CMake embeds in a program, and a source of that program.
EMBEDDED = {"worker/python/prestart/": "worker/agent/agent.cc",
            "cli/ui/page/": "cli/ui/embedded/embedded_page.cc"}
# Where Python tests import from, beside their own folders.
LIBRARIES = ("tests/lib", "tools/lib/cluster", "tools/lib", "tools/lib/testing", "bench")
# Folders whose names alone say nothing: too many words are spelled like them.
COMMON_WORDS = {"base", "bench", "cli", "core", "docker", "docs", "helm", "operator", "tests", "tools",
                "worker"}
# tests/lib/paths.py: a name stands for a folder.
NAMED_FOLDERS = {"CHART": "helm/lockstep", "CRDS": "crds", "EXAMPLES": "examples",
                 "MODULES": "worker/python"}
# What a program starts.
STARTS = {"lockstep": {"lockstep-agent", "lockstep-pmix", "lockstep-s3"}, "trainer": {"lockstep-trainer"},
          "gang": {"lockstep-agent"}, "lockstep-operator-": {"lockstep-operator-cpprestsdk"},
          "fake_nccl": {"libcuda.so.1", "libnccl.so.2", "libcublasLt.so.13", "libnvidia-ml.so.1"}}
# Tests of images run all that is in them.
OF_IMAGES = ("tests/system/images/", "tests/system/nodes/", "tests/system/monitoring/")
IN_IMAGES = ("docker/", "helm/", "crds/", "tools/images", "tools/lib/images.sh",
             "tools/lib/debian-base", "examples/")
SHARED = "tests/conftest.py"
LITERAL = re.compile(r'"([^"\n]*)"')


def changed_files(root, base):
    """Paths, relative to `root`, that differ from the commit `base`, committed or not."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True,
                              text=True).stdout.splitlines()

    start = git("merge-base", base, "HEAD")[0]
    found = {*git("diff", "--name-only", "--no-renames", start),
             *git("ls-files", "--others", "--exclude-standard")}
    found |= {source for folder, source in EMBEDDED.items()
              if any(path.startswith(folder) for path in found)}
    return sorted(found)


def default_base(root):
    """The branch's upstream; without one HEAD, so that only what is not committed counts."""
    found = subprocess.run(["git", "-C", str(root), "rev-parse", "--verify", "-q", "@{upstream}"],
                           capture_output=True, text=True).stdout.strip()
    return found or "HEAD"


def affects_everything(path):
    return path.endswith("/CMakeLists.txt") or any(
        path == each or each.endswith("/") and path.startswith(each) for each in EVERYTHING)


def prefixes(path):
    """`path` and the folders above it that are worth a search."""
    found = [path, *(str(each) for each in pathlib.PurePosixPath(path).parents if str(each) != ".")]
    return {each for each in found if each not in COMMON_WORDS}


class BuildGraph:
    """What ninja knows of a build folder once it has built."""

    def __init__(self, root, build):
        self._root = pathlib.Path(root)
        self._build = pathlib.Path(build)

    def sources(self, program):
        """The files of the tree that a program, as bin/core_test, is compiled from."""
        found = set()
        for each in self._ninja("-t", "inputs", program):
            found |= self._compiled_from.get(each, set())
            found.update(self._in_tree(each))
        return found

    def affected(self, program, changed):
        return bool(self.sources(program) & set(changed))

    def shipped(self, changed):
        """Names of the affected programs and libraries that Python tests start."""
        found = [*(each for each in (self._build / "bin").iterdir()
                   if not each.name.endswith(("_test", "_fuzz"))),
                 *(self._build / "fake_nccl").glob("lib*")]
        # kubectl-lockstep is a link to lockstep, and no target of ninja's.
        return {each.name for each in found
                if self.affected(str(each.resolve().relative_to(self._build.resolve())), changed)}

    @functools.cached_property
    def _compiled_from(self):
        """Object -> files of the tree, as the compilers wrote them down."""
        found, current = {}, None
        for line in self._ninja("-t", "deps"):
            if line.startswith("    "):
                current.update(self._in_tree(line.strip()))
            elif ": #deps" in line:
                current = found.setdefault(line.partition(": #deps")[0], set())
        return found

    def _in_tree(self, path):
        full = pathlib.Path(os.path.normpath(self._build / path))
        if self._root not in full.parents:
            return []
        relative = full.relative_to(self._root)
        return [] if relative.parts[0] == "build" else [str(relative)]

    def _ninja(self, *words):
        return subprocess.run(["ninja", "-C", str(self._build), *words], check=True,
                              capture_output=True, text=True).stdout.splitlines()


def programs_affected(root, graph, programs, changed):
    """Of `programs`, name -> path in the build folder or "" for a test that is no program of the
    build, those that the changed files can affect."""
    root = pathlib.Path(root)
    found = set()
    for name, path in programs.items():
        if not path:
            found.add(name)
            continue
        sources = graph.sources(path)
        named = set()
        for source in sources:
            if source.startswith("tests/") and (root / source).exists():
                named |= {each.strip("/") for each in
                          LITERAL.findall((root / source).read_text(errors="replace"))}
        seeds = f"tests/fuzz/corpus/{name.removesuffix('_fuzz')}/"
        if (sources & set(changed) or any(prefixes(each) & named for each in changed)
                or any(each.startswith(seeds) for each in changed)):
            found.add(name)
    return found


class PythonFiles:
    """The Python tests of the tree, with what each imports and names."""

    def __init__(self, root):
        self._root = pathlib.Path(root)

    def affected(self, tests, changed, programs):
        """Of `tests`, paths of files, those that changed files or changed programs can affect."""
        return [test for test in tests if self._is_affected(test, changed, programs)]

    def _is_affected(self, test, changed, programs):
        closure, words = self._closure(test)
        folder = str(pathlib.PurePosixPath(test).parent)
        started = {each for word in words for each in STARTS.get(word, ())} | words
        if programs & started or (programs and test.startswith(OF_IMAGES)):
            return True
        for path in changed:
            name = pathlib.PurePosixPath(path)
            is_data = path.startswith(f"{folder}/") and not name.name.startswith("test_")
            named = prefixes(path) & words or ("." in name.name and name.name in words)
            in_images = test.startswith(OF_IMAGES) and path.startswith(IN_IMAGES)
            if path in closure or is_data or named or in_images:
                return True
        return False

    @functools.cache
    def _closure(self, test):
        """The files that a test consists of, and all words that are written in them as strings."""
        closure, words = set(), set()
        self._follow([test, *self._conftests(test)], closure, words)
        # Of the fixtures of all tests those that these files ask for.
        for fixture, module in self._shared_fixtures().items():
            if fixture in words:
                self._follow([self._find(module, SHARED)], closure, words)
        return frozenset(closure), frozenset(words)

    def _follow(self, open_files, closure, words):
        while open_files:
            path = open_files.pop()
            if path in closure:
                continue
            closure.add(path)
            imports, literals = self._read(path)
            words |= literals
            open_files += [found for name in imports if (found := self._find(name, path))]

    def _conftests(self, test):
        return [str(each / "conftest.py") for each in pathlib.PurePosixPath(test).parents
                if str(each / "conftest.py") != SHARED and (self._root / each / "conftest.py").exists()]

    @functools.cache
    def _shared_fixtures(self):
        """Name -> module, of what tests/conftest.py imports."""
        tree = ast.parse((self._root / SHARED).read_text())
        return {each.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom)
                for each in node.names}

    @functools.cache
    def _read(self, path):
        tree = ast.parse((self._root / path).read_text())
        imports, words = set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imports |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imports.add(node.module)
                if node.module == "paths":
                    words |= {NAMED_FOLDERS[each.name] for each in node.names
                              if each.name in NAMED_FOLDERS}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # A docstring names much that its code does not use.
                if len(node.value) < 200:
                    words |= {node.value.strip("/"), *node.value.split()}
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                words |= {each.arg for each in node.args.args}  # fixtures
        return frozenset(imports), frozenset(words)

    def _find(self, module, importer):
        """The file of an imported module, if it is one of the tree."""
        relative = module.replace(".", "/")
        for folder in (str(pathlib.PurePosixPath(importer).parent), *LIBRARIES):
            for path in (f"{folder}/{relative}.py", f"{folder}/{relative}/__init__.py"):
                if path != "tests/lib/paths.py" and (self._root / path).exists():
                    return path
        return ""
