"""tools/lib/cluster/parts.py: where the suites' Go programs and their sources come from."""


import parts


def test_a_source_is_there_on_a_machine_that_has_built_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    source = parts.source("helm", "github.com/yannh/kubeconform")
    assert source.is_relative_to(tmp_path)
    assert (source / "go.mod").exists()
