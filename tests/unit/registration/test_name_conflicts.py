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
async def test_a7_a_name_that_looks_like_another_is_refused(twin: str) -> None:
    harness = RegistrationHarness()
    await harness.register(mcp("gmail_send"), "mcp")
    with pytest.raises(BadDocument, match=r"tell apart from gmail_send\.gmail_send") as refused:
        await harness.register(mcp(twin), "mcp")
    assert refused.value.findings[0].rule == "name/confusable"


@pytest.mark.parametrize("letter", ["\N{CYRILLIC SMALL LETTER IE}", "\N{FULLWIDTH LATIN SMALL LETTER E}"])
async def test_a7_beside_code_too(letter: str) -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0", name="send"))
    with pytest.raises(BadDocument, match=r"tell apart from Kit\.send"):
        await harness.register(mcp(f"Kit_s{letter}nd"), "mcp")


async def test_a6_names_that_meet_in_some_dialect_are_refused() -> None:
    harness = RegistrationHarness()
    await harness.register(mcp("acme__status", "acme_.status@1.0.0"), "mcp")
    with pytest.raises(BadDocument, match=r"tell apart from acme_\.status@1\.0\.0"):
        await harness.register(mcp("acme__status", "acme._status@1.0.0"), "mcp")
    assert len(harness.service.all_records) == 1


async def test_another_name_is_another_tool() -> None:
    harness = RegistrationHarness()
    await harness.register(mcp("gmail_send"), "mcp")
    await harness.register(mcp("gmail_sent"), "mcp")
