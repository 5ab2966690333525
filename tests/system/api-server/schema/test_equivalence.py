"""The CRD and core accept and reject the same jobs: each generated document is put to both."""

import collections

import documents
import pytest
import rule_cases
import schema_walk

KINDS = ("valid value", "null", "wrong type")


@pytest.fixture(scope="module")
def validated(whole, server, core):
    """Every case with the API server's verdict and core's."""
    cases = [*documents.cases(whole), *rule_cases.cases(core.names())]
    jobs = [case.document for case in cases]
    print(f"\n{len(jobs)} documents")
    return list(zip(cases, server.validate(jobs), core.validate(jobs), strict=True))


def test_api_server_and_core_accept_and_reject_the_same_jobs(validated):
    apart = [f"{case}: the API server: {of_server}; core: {of_core}"
             for case, of_server, of_core in validated if of_server.accepted != of_core.accepted]
    assert not apart, "\n".join(apart)


def test_api_server_returns_the_expected_verdict_for_each_job(validated):
    wrong = [f"{case}: {of_server}" for case, of_server, _ in validated
             if case.right is not None and of_server.accepted != case.right]
    assert not wrong, "\n".join(wrong)


def test_generated_jobs_cover_every_spec_field(whole, validated):
    kinds = collections.defaultdict(set)
    for case, _, _ in validated:
        kinds[case.path].add(case.kind)
    fields = schema_walk.spec_fields(whole)
    missing = [f"{path}: no {kind}" for path, schema in fields.items()
               for kind in _kinds_of(path, schema) if kind not in kinds[path]]
    print(f"\n{len(fields)} fields, {len(missing)} not covered", *missing, sep="\n")
    assert not missing


def _kinds_of(path, schema):
    yield from KINDS[:2] if path == "spec.template" else KINDS
    if any(key in schema for key in ("maxLength", "minimum", "maximum", "maxItems",
                                     "maxProperties")):
        yield from ("bound", "past its bound")
    if "properties" in schema:
        yield "unknown sibling"


def test_every_rule_has_a_passing_job_and_a_failing_job(whole, validated):
    rules = [rule for rule in schema_walk.rules(whole) if not rule.about_changes]
    told = {(schema_walk.normal(field), message) for _, of_server, _ in validated
            for field, message in of_server.errors}
    right = [case.document for case, of_server, _ in validated if of_server.accepted]
    missing = [f"fails: {rule}" for rule in rules
               if not any(rule.is_told_by(*each) for each in told)]
    missing += [f"passes: {rule}" for rule in rules
                if not any(schema_walk.holds(each, rule.holder) for each in right)]
    print(f"\n{len(rules)} rules, {len(missing)} not covered", *missing, sep="\n")
    assert not missing


def test_core_and_api_server_report_the_same_broken_rule(whole, validated):
    rules = [rule for rule in schema_walk.rules(whole) if not rule.about_changes]
    apart = set()
    for _, of_server, of_core in validated:
        for rule in rules:
            alone = len(of_server.errors) == 1 and rule.is_told_by(*of_server.errors[0])
            if alone and not any(_says(rule, message) for _, message in of_core.errors):
                apart.add(f"{rule}\n  core: {of_core}")
    assert not apart, "\n".join(sorted(apart))


def _says(rule, message):
    """The same first words; core may go on with numbers that CEL can't know. What core can't even
    hold as a duration or quantity is told as that.
    """
    beginning = " ".join(rule.shown.removeprefix("metadata.name ").split()[:3])
    return any(each in message for each in (beginning, "; the limit is", "is missing"))


def test_core_rejects_mistakes_that_the_api_server_accepts(server, core):
    for job, of_server, of_core in zip(rule_cases.CORE_ALONE, server.validate(rule_cases.CORE_ALONE),
                                       core.validate(rule_cases.CORE_ALONE), strict=True):
        assert of_server.accepted, f"{job['spec']}: {of_server}"
        assert not of_core.accepted, job["spec"]
