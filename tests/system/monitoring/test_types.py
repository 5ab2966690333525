"""The dashboards, compiled against Grafana's own types."""

import json

import pytest
from grafana_types import SOURCE, compile_errors, install
from panels import dashboards

pytestmark = pytest.mark.slow  # Node.js and npm's packages are downloaded first


@pytest.fixture(scope="module")
def types():
    return install()


@pytest.fixture
def errors(types, tmp_path):
    """The compiler's words about dashboards, given by name."""
    (tmp_path / "node_modules").symlink_to(types / "node_modules")
    (tmp_path / "dashboard.ts").write_text((SOURCE / "dashboard.ts").read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')

    def compiled(made):
        files = []
        for name, dashboard in made.items():
            files.append(tmp_path / f"{name}.ts")
            files[-1].write_text(
                'import type { ClassicDashboard } from "./dashboard.js";\n'
                f"export const made: ClassicDashboard = {json.dumps(dashboard, indent=1)};\n")
        return compile_errors(types, files)

    return compiled


def test_dashboards_compile_against_the_types_of_grafana(errors):
    assert errors(dashboards()) == ""


@pytest.mark.parametrize("key, value, complaint", [
    ("drawStyle", "scribble", "scribble"),
    ("lineThickness", 1, "lineThickness"),
    ("stacking", {"mode": "high", "group": "A"}, '"high"'),
])
def test_compiler_rejects_panel_options_unknown_to_grafana(errors, key, value, complaint):
    made = dashboards()["fleet"]
    [panel] = [each for each in made["panels"] if each["title"] == "Jobs by state"]
    panel["fieldConfig"]["defaults"]["custom"][key] = value
    assert complaint in errors({"fleet": made})
