"""Names that could be taken for another tool's are refused (threats A6, A7)."""

import pytest

from tests.unit.registration.harness import RegistrationHarness, mcp, own
from toolhall.dialects.findings import BadDocument

TWINS = {
    "case": "Gmail_Send",
    "cyrillic": "gm\N{CYRILLIC SMALL LETTER A}il_send",
    "greek": "gmail_s\N{GREEK SMALL LETTER EPSILON}nd",
    "accent": "gmail_se\N{LATIN SMALL LETTER N WITH TILDE}d",
    "decomposed": "gmail_sen\N{COMBINING TILDE}d",
    "wide": "\N{FULLWIDTH LATIN SMALL LETTER G}mail_send",
    "invisible": "gmail\N{ZERO WIDTH SPACE}_send",
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
async def test_register_tool_with_a_confusable_name_raises_bad_document(twin: str) -> None:
    harness = RegistrationHarness()
    await harness.register(mcp("gmail_send"), "mcp")
    with pytest.raises(BadDocument, match=r"tell apart from gmail_send\.gmail_send") as refused:
        await harness.register(mcp(twin), "mcp")
    assert refused.value.findings[0].rule == "name/confusable"


@pytest.mark.parametrize("letter", ["\N{CYRILLIC SMALL LETTER IE}", "\N{FULLWIDTH LATIN SMALL LETTER E}"])
async def test_register_tool_with_a_name_confusable_with_a_code_tool_raises_bad_document(letter: str) -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0", name="send"))
    with pytest.raises(BadDocument, match=r"tell apart from Kit\.send"):
        await harness.register(mcp(f"Kit_s{letter}nd"), "mcp")


async def test_register_tools_whose_names_collide_in_a_dialect_raises_bad_document() -> None:
    harness = RegistrationHarness()
    await harness.register(mcp("acme__status", "acme_.status@1.0.0"), "mcp")
    with pytest.raises(BadDocument, match=r"tell apart from acme_\.status@1\.0\.0"):
        await harness.register(mcp("acme__status", "acme._status@1.0.0"), "mcp")
    assert len(harness.service.all_records) == 1


async def test_register_tools_with_similar_but_distinct_names_succeeds() -> None:
    harness = RegistrationHarness()
    await harness.register(mcp("gmail_send"), "mcp")
    await harness.register(mcp("gmail_sent"), "mcp")
