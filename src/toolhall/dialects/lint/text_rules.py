"""Lint rules about texts: hidden characters, and wording that addresses the model (prompt injection).

A violation is a hint for the reviewer of a definition; a text without any may still be hostile.
"""

import re

from toolhall.dialects.lint.rule import TextRule

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufff9-\ufffb]")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ue000-\uf8ff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
# Emoji sequences contain invisible characters, and some scripts need joiners and direction marks.
_LEGITIMATE_INVISIBLE = re.compile(
    "(?<=[^\x00-\x7f\ufe00-\ufe0f])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f\u20e3|(?<=[\u2190-\U0001faff\ufe0f])\u200d"
    "|(?<=[\u0590-\u0dff])[\u200c-\u200f]|[\u200e\u200f](?=[\u0590-\u0dff])"
)
# Cyrillic and Greek letters that look like Latin ones, beside a Latin one.
_LATIN_LOOKALIKES = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u0410\u0412\u0415\u041a\u041c"
    "\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d"
    "\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03c1"
)
_LOOKALIKE = re.compile(f"[A-Za-z][{_LATIN_LOOKALIKES}]|[{_LATIN_LOOKALIKES}][A-Za-z]")
_WORDS = re.IGNORECASE | re.VERBOSE
_OVERRIDE = re.compile(
    r"""\b(?:ignore|disregard|forget|override|bypass|supersede)s?\b [^.\n]{0,40}
        \b(?:instructions?|prompts?|rules|guidelines|guardrails|directives?|safety)\b
      | \b(?:system|developer)\s(?:prompt|message)\b | \bhidden\sinstructions?\b""",
    _WORDS,
)
_SECRECY = re.compile(
    r"""\b(?:do\snot|don'?t|never|must\snot|should\snot|without) \s
        (?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|notify|notifying|alert|alerting|disclose|disclosing)\b
      | \b(?:hide|conceal|keep)\b [^.\n]{0,30} \bfrom\sthe\suser\b
      | \bwithout\s(?:the\s)?(?:user'?s?|their|his|her)\s(?:knowledge|consent|permission|approval)\b""",
    _WORDS,
)
_COMMAND = re.compile(
    r"""\b(?:before|after|instead\sof|whenever)\s (?:you\s)? (?:using|calling|running|invoking|use|call|run|invoke)\s
        (?:this|any|all|every|each|the)\s (?:other\s)? (?:tools?|functions?)\b
      | \byou\s(?:must|have\sto|are\srequired\sto)\s (?:\w+\s)?
        (?:call|use|run|invoke|read|send|execute|include|pass|add)\b
      | \b(?:always|must)\s(?:call|run|invoke)\sthis\b
      | \botherwise\s (?:the|this)\s tool\s (?:will|does|won'?t)\b""",
    _WORDS,
)
_PRIVATE_FILES = re.compile(
    r"""\.ssh\b | \bid_(?:rsa|ed25519|ecdsa|dsa)\b | \.aws/ | /etc/(?:passwd|shadow|sudoers) | \.cursor/ | \bmcp\.json\b
      | claude_desktop_config | \.netrc\b | \.kube/ | \.docker/config | \.git-credentials | \.bash_history | /proc/self/
      | (?:^|[\s"'`(/\\])\.env(?:$|[\s"'`),;]) | \.pgpass\b | \.gnupg\b | login\.keychain""",
    _WORDS,
)
_MARKUP = re.compile(
    r"""<!-- | </?(?:important|system|instructions?|secret|hidden|assistant|admin|override|critical)
        (?:\s[^>]{0,200})?> | display\s?:\s?none | visibility\s?:\s?hidden | font-size\s?:\s?0 | ^\[//\]:\s?\#
      | \[/?INST\] | <\|[a-z_]{1,30}\|>""",
    _WORDS | re.MULTILINE,
)
_CREDENTIALS = re.compile(
    r"""\b[a-z][a-z0-9+.-]{1,20}://[^\s/?\#@:"'<>]{0,100}:(?!pass(?:word|wd)?@|pwd@|secret@|[*x.]{1,20}@|[$<{\[%])
        [^\s/?\#@"'<>]{1,100}@
      | [?&](?:token|api_?key|access_token|secret|password|sig|signature)=
        (?!your|my|xxx|\*\*\*|[$<{\[%])[^\s&"'<>]{8}""",
    _WORDS,
)
_ENCODED = re.compile(r"[A-Za-z0-9+/]{80}")
_MAX_SLASHES = 6
_MIN_WORDING_LENGTH = 4  # the length of the shortest text that a wording rule can match: `.ssh`
_GAP = re.compile(r"[ \t]{80}|(?:\n[ \t\r]{0,20}){12}")


def _has_invisible(text: str) -> bool:
    return not text.isascii() and _INVISIBLE.search(_LEGITIMATE_INVISIBLE.sub("", text)) is not None


def _is_encoded(text: str) -> bool:
    """A long run of letters and digits that is no word, no path and no hexadecimal number."""
    if len(text) < 80 or text.startswith("data:image/"):
        return False
    for match in _ENCODED.finditer(text):
        run = match[0]
        mixed = any(map(str.islower, run)) and any(map(str.isupper, run)) and any(map(str.isdigit, run))
        if mixed and run.count("/") <= _MAX_SLASHES:
            return True
    return False


def _has_gap(text: str) -> bool:
    match = _GAP.search(text) if len(text) > 12 else None
    return match is not None and bool(text[match.end() :].strip())


def _rule(name: str, summary: str, fix: str, pattern: re.Pattern[str]) -> TextRule:
    return TextRule(id=name, summary=summary, fix=fix, breaks=lambda text: pattern.search(text) is not None)


_CHARACTER_RULES = (
    _rule("text/control", "A text holds control characters.", "remove the control characters", _CONTROL),
    TextRule(
        id="text/invisible",
        summary="A text holds invisible characters, which people do not see but a model reads.",
        fix="remove the invisible characters; a message may be hidden in them",
        breaks=_has_invisible,
    ),
    _rule(
        "text/direction",
        "A text holds characters that change the writing direction, so that it looks different from what it is.",
        "remove the characters U+202A to U+202E and U+2066 to U+2069",
        _BIDI,
    ),
    _rule(
        "text/lookalike",
        "A word mixes Latin letters with others that look the same.",
        "write the word in one script; it passes itself off as another one",
        _LOOKALIKE,
    ),
)
_WORDING_RULES = (
    TextRule(
        id="text/gap",
        summary="A text continues after a large gap, where it is easily overlooked.",
        fix="remove the blanks or empty lines in the middle of the text",
        breaks=_has_gap,
    ),
    _rule(
        "poison/override",
        "A text talks about the model's instructions.",
        "describe what the tool does; do not talk about instructions, prompts or rules of the model",
        _OVERRIDE,
    ),
    _rule(
        "poison/secrecy",
        "A text asks the model to keep something secret.",
        "remove what asks the model to keep something from the person",
        _SECRECY,
    ),
    _rule(
        "poison/command",
        "A text tells the model what to do, beyond this tool.",
        "describe what the tool does; do not tell the model when it must act",
        _COMMAND,
    ),
    _rule(
        "poison/private-file",
        "A text names a file that holds credentials.",
        "remove the mention of private files, unless the tool is about them",
        _PRIVATE_FILES,
    ),
    _rule(
        "poison/markup",
        "A text holds markup that hides parts of it or poses as a message of the system.",
        "write plain text, without comments and tags",
        _MARKUP,
    ),
    _rule(
        "poison/credentials",
        "A text holds an address with a password or a token in it.",
        "remove the credential from the address, and renew it if it was real",
        _CREDENTIALS,
    ),
    TextRule(
        id="poison/encoded",
        summary="A text holds a long run of encoded data.",
        fix="remove the encoded data, or say in words what it is for",
        breaks=_is_encoded,
    ),
)
TEXT_RULES = (*_CHARACTER_RULES, *_WORDING_RULES)


def violated_rules(text: str) -> list[TextRule]:
    """The rules that a text violates; plain short texts, which are most, cost almost nothing."""
    violated = [] if text.isascii() and text.isprintable() else [rule for rule in _CHARACTER_RULES if rule.breaks(text)]
    if len(text) >= _MIN_WORDING_LENGTH:
        violated.extend(rule for rule in _WORDING_RULES if rule.breaks(text))
    return violated
