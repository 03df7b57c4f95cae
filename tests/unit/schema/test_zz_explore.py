import jsonschema_rs, pytest, json, collections
from hypothesis import given, settings, assume, strategies as st, HealthCheck, event
from tests.unit.schema.random_schemas import roots, fitting, values, parts, objects, definitions
from toolhall.schema.reshape import reshape
from toolhall.dialects.openai.catalog import LOOSE
from toolhall.dialects.anthropic.catalog import TARGET as AN
from toolhall.dialects.gemini.parameters import TARGET as GE
from toolhall.dialects.openapi.catalog import TARGET as OP
from toolhall.dialects.openai.strict import strict_parameters, NotStrict


def judge(s):
    return jsonschema_rs.Draft202012Validator(s, validate_formats=False)


C = collections.Counter()
S = settings(max_examples=1500, suppress_health_check=list(HealthCheck), deadline=None)


@S
@given(st.data(), roots())
def test_rate(data, schema):
    try:
        before = judge(schema)
    except Exception:
        C["bad"] += 1
        return
    r = reshape(schema, GE)
    for _ in range(4):
        v = fitting(data.draw, schema, schema)
        C[before.is_valid(v)] += 1


def test_show():
    print(C)


def closed(s):
    if isinstance(s, list):
        return [closed(x) for x in s]
    if isinstance(s, dict):
        s = {
            k: (
                {n: closed(v) for n, v in p.items()}
                if k in ("properties", "$defs")
                else closed(p)
                if k in ("items", "anyOf", "oneOf", "allOf", "not")
                else p
            )
            for k, p in s.items()
            if k
            not in ("minProperties", "dependentRequired", "uniqueItems", "prefixItems", "minLength", "maxLength", "not")
        }
        if s.get("type") == "object":
            s["additionalProperties"] = False
            s["required"] = list(s.get("properties", {}))
        if s.get("type") == "array":
            s.setdefault("items", {"type": "string"})
    return s


def filled(v, s, root):
    # nulls for absent
    return v


@S
@given(st.data(), roots())
def test_strict(data, schema):
    schema = closed(schema)
    try:
        before = judge(schema)
    except Exception:
        assume(False)
    try:
        r = strict_parameters(schema)
    except NotStrict as e:
        C["ns"] += 1
        return
    C["strict"] += 1
    after = judge(r.schema)
    for _ in range(5):
        v = fitting(data.draw, schema, schema)
        if isinstance(v, dict):
            C["sv", before.is_valid(v)] += 1
            assert after.is_valid(v) == before.is_valid(v), (v, json.dumps(schema), json.dumps(r.schema))


def test_show2():
    print(C)
