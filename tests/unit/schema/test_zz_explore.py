import json

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit.schema.random_schemas import fitting, roots
from toolhall.dialects.anthropic.catalog import TARGET as AN
from toolhall.dialects.gemini.parameters import TARGET as GE
from toolhall.dialects.openai.catalog import LOOSE
from toolhall.dialects.openapi.catalog import TARGET as OP
from toolhall.schema.reshape import reshape


def judge(s):
    return jsonschema_rs.Draft202012Validator(s, validate_formats=False)


def standard(s):
    if isinstance(s, list):
        return [standard(x) for x in s]
    if not isinstance(s, dict):
        return s
    out = {
        k: (
            {n: standard(v) for n, v in p.items()}
            if k == "properties"
            else standard(p)
            if k in ("items", "anyOf")
            else p
        )
        for k, p in s.items()
        if k not in ("nullable", "default")
    }
    return {"anyOf": [out, {"type": "null"}]} if s.get("nullable") is True else out


def nested_lists(v):
    if isinstance(v, list):
        return any(isinstance(x, list) for x in v) or any(map(nested_lists, v))
    if isinstance(v, dict):
        return any(map(nested_lists, v.values()))
    return False


S = settings(max_examples=3000, suppress_health_check=list(HealthCheck), deadline=None)


@pytest.mark.parametrize("target", [LOOSE, AN, OP, GE], ids=lambda t: t.name)
@S
@given(st.data(), roots())
def test_super(target, data, schema):
    try:
        before = judge(schema)
    except Exception:
        assume(False)
    r = reshape(schema, target)
    jsonschema_rs.meta.validate(r.schema) if hasattr(jsonschema_rs, "meta") else None
    after = judge(standard(r.schema) if target is GE else r.schema)
    for _ in range(4):
        v = fitting(data.draw, schema, schema)
        if target is GE and nested_lists(v):
            continue
        if before.is_valid(v):
            assert after.is_valid(v), (v, json.dumps(schema), json.dumps(r.schema))
        elif target in (OP,):
            assert not after.is_valid(v), (v, json.dumps(schema), json.dumps(r.schema))
