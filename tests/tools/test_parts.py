"""tools/lib/cluster/parts.py: where the suites' Go programs and their sources come from."""


import parts


def test_source_is_downloaded_into_empty_module_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    source = parts.source("helm", "github.com/yannh/kubeconform")
    assert source.is_relative_to(tmp_path)
    assert (source / "go.mod").exists()
