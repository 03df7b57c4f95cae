"""Examples of management operations on access: keys, grants, approvals, factors, secrets, linked accounts, sessions."""

from toolhall.model.json import Json, JsonObject

_AT, _END = "2027-02-01T09:30:00.000Z", "2027-05-02T09:30:00.000Z"
_SHA256 = "5d41402abc4b2a76b9719d911017c592ae2f6c3d1b7e8a904c5d6e7f80912a3b"
_KEY: JsonObject = {
    "id": "k_7d2f",
    "name": "ci",
    "owner": None,
    "shared": False,
    "scopes": ["tools:*"],
    "createdAt": _AT,
    "expiresAt": _END,
    "lastUsedAt": None,
    "revokedAt": None,
    "by": "alice",
}
_GRANT: JsonObject = {
    "id": "g_4f1c",
    "effect": "permit",
    "callers": "ci",
    "tools": "Calendar.*",
    "conditions": [{"path": "/calendar", "oneOf": ["team"]}],
    "createdAt": _AT,
    "by": "alice",
}
_NOT_REACHED = "The call does not get here."
_CHECKED: list[Json] = [
    {"stage": "find", "state": "pass", "rule": None, "words": "ci sees Calendar.add@1.0.0."},
    {"stage": "authorize", "state": "pass", "rule": None, "words": "A rule decides by the arguments."},
    {"stage": "limit", "state": "pass", "rule": None, "words": "It is within all limits of this process now."},
    {"stage": "validate", "state": "pass", "rule": None, "words": "The arguments match the tool's schema."},
    {"stage": "verify", "state": "stop", "rule": "grant", "words": "No grant permits it with these arguments."},
    {"stage": "equip", "state": "not_reached", "rule": None, "words": _NOT_REACHED},
]
_APPROVAL: JsonObject = {
    "id": "a_81c0",
    "state": "pending",
    "how": "approval",
    "tool": "Mail.send@1.0.0",
    "level": 9,
    "effect": "writes",
    "caller": "assistant",
    "person": "alice",
    "actingFor": None,
    "dialect": "mcp@2026-07-28",
    "shown": '{"to":"bob@example.com"}',
    "shownSha256": _SHA256,
    "argumentsSha256": _SHA256,
    "definitionSha256": _SHA256,
    "codeSha256": _SHA256,
    "createdAt": _AT,
    "expiresAt": "2027-02-01T09:35:00.000Z",
    "approver": None,
    "method": None,
    "decidedAt": None,
    "reason": None,
    "differences": {
        "since": "2027-01-30T11:00:00.000Z",
        "changes": [{"path": "/to", "before": "carol@example.com", "after": "bob@example.com"}],
    },
    "mayApprove": True,
    "url": "https://tools.example.com/approve/a_81c0",
}
_DECIDED: JsonObject = {
    "approver": "alice",
    "method": "totp",
    "decidedAt": "2027-02-01T09:31:00.000Z",
    "differences": None,
}
_FACTOR: JsonObject = {
    "id": "f_33ab",
    "person": "alice",
    "kind": "totp",
    "by": "alice",
    "createdAt": _AT,
    "usedAt": None,
    "expiresAt": None,
}
_SECRET: JsonObject = {
    "name": "TWILIO_API_KEY",
    "user": None,
    "hint": "3f9a",
    "by": "alice",
    "createdAt": _AT,
    "changedAt": _AT,
    "usable": True,
    "usedBy": ["Sms.send@1.0.0"],
    "usedAt": "2027-02-03T16:05:12.250Z",
}
_PROVIDER: JsonObject = {
    "name": "google",
    "displayName": "Google",
    "issuer": "https://accounts.google.com",
    "scopes": [],
    "redirect_uri": "https://tools.example.com/oauth/callback",
}
_ACCOUNT: JsonObject = {
    "id": "acc_5e1d",
    "user": "alice",
    "person": "alice",
    "provider": "google",
    "providerName": "Google",
    "issuer": "https://accounts.google.com",
    "scopes": ["https://www.googleapis.com/auth/gmail.readonly"],
    "state": "connected",
    "linkedAt": _AT,
    "refreshedAt": None,
    "expiresAt": "2027-02-01T10:30:00.000Z",
    "usedBy": ["Gmail.search@1.0.0"],
    "usedAt": None,
}
_LINK_URL = "https://tools.example.com/connect/l_92fe"
ACCESS_RESPONSES: dict[str, Json] = {
    "keys": {"keys": [_KEY]},
    "createKey": {**_KEY, "secret": "k_7d2f_a-long-random-text"},
    "revokeKey": {**_KEY, "revokedAt": _AT},
    "grants": {"grants": [{**_GRANT, "calls": 12}]},
    "addGrant": {**_GRANT, "warnings": []},
    "removeGrant": {"removed": "g_4f1c"},
    "allCallers": {
        "callers": [
            {
                "name": "ci",
                "proof": "key",
                "owner": None,
                "scopes": ["tools:*"],
                "keys": [_KEY],
                "lastAt": _AT,
                "calls": 12,
                "refused": 1,
            }
        ]
    },
    "limits": {
        "perCaller": {"rate": 5000, "burst": 50000},
        "perTool": None,
        "perPair": {"rate": 2, "burst": 10},
        "concurrency": {"perCaller": 128, "perTool": 192, "total": 256},
        "costs": {"Mail.*": 5},
        "fullest": [{"key": "ci Mail.send@1.0.0", "kind": "pair", "fill": 0.9}],
        "refused": [{"caller": "ci", "calls": 3, "lastAt": _AT}],
        "processes": {"running": 2, "seen": 1},
    },
    "previewLimits": {"calls": 480, "refused": 7, "callers": [{"caller": "ci", "refused": 7}]},
    "check": {
        "caller": "ci",
        "tool": "Calendar.add@1.0.0",
        "verdict": "refused",
        "stages": _CHECKED,
        "notes": [],
    },
    "access": {
        "pairs": [
            {
                "caller": "ci",
                "tool": "Calendar.add@1.0.0",
                "toolkit": "Calendar",
                "verdict": "if",
                "rule": "g_4f1c",
                "words": "It depends on the arguments: g_4f1c permits it under conditions.",
                "conditions": _GRANT["conditions"],
            }
        ]
    },
    "approvals": {"approvals": [_APPROVAL]},
    "approve": {**_APPROVAL, **_DECIDED, "state": "approved"},
    "deny": {**_APPROVAL, **_DECIDED, "state": "denied", "reason": "bob has left the company"},
    "approvalOptions": {
        "id": "a_81c0",
        "publicKey": {"challenge": "Y2hhbGxlbmdl", "rpId": "tools.example.com", "userVerification": "required"},
    },
    "factors": {"factors": [_FACTOR]},
    "addFactor": {"kind": "passkey", "person": "alice", "url": "https://tools.example.com/enroll/x", "expiresAt": _AT},
    "confirmFactor": _FACTOR,
    "removeFactor": {"removed": "f_33ab"},
    "secrets": {"secrets": [_SECRET]},
    "removeSecretsOf": {"removed": "alice"},
    "setSecret": _SECRET,
    "removeSecret": {"removed": "TWILIO_API_KEY"},
    "rotateSecrets": {"rotated": 2},
    "providers": {"providers": [_PROVIDER]},
    "accounts": {"accounts": [_ACCOUNT]},
    "linkAccount": {
        "id": "l_92fe",
        "url": _LINK_URL,
        "check_url": f"{_LINK_URL}/status",
        "expiresAt": _AT,
        "device": None,
        "authorize_url": None,
    },
    "removeAccount": {"removed": "acc_5e1d", "unrevoked": None},
    "pasteLink": {"id": "l_92fe", "status": "completed"},
    "me": {
        "caller": "alice", "person": "alice", "proof": "key", "scopes": ["admin", "tools:*"],
        "may": {"manage": True, "observe": True, "approve": True}, "hall": "toolhall", "version": "0.1.0",
        "profile": "server", "publicUrl": "https://tools.example.com",
        "processes": {"running": 1, "seen": 1}, "endpoints": {"mcp": "https://tools.example.com/mcp"},
        "token": "the-token-of-the-session", "sessionEndsAt": _AT, "provenAt": None, "hasFactor": True,
        "firstRun": False, "docs": "https://tools.example.com/openapi.json", "oidc": False,
    },
    "prove": {"provenAt": _AT},
    "proofOptions": {"id": "opaque", "publicKey": {"challenge": "c29tZXRoaW5n", "rpId": "tools.example.com"}},
    "sessionToken": {"token": "ts_opaque", "expiresAt": _AT},
}  # fmt: skip
ACCESS_REQUESTS: dict[str, Json] = {
    "createKey": {"name": "ci", "scopes": ["tools:*"], "expires": "30d"},
    "addGrant": {"callers": "ci", "tools": "Calendar.*", "conditions": [{"path": "/calendar", "equals": "team"}]},
    "previewLimits": {"perPair": {"rate": 1, "burst": 5}},
    "check": {"caller": "ci", "tool": "Calendar.add", "arguments": {"calendar": "private"}},
    "approve": {"code": "123456"},
    "deny": {"reason": "bob has left the company"},
    "approvalOptions": {},
    "addFactor": {"kind": "passkey", "person": "alice"},
    "confirmFactor": {"enrolment": "the text that the request before returned", "code": "123456"},
    "removeFactor": {"code": "123456"},
    "setSecret": {"value": "a-long-random-value"},
    "rotateSecrets": {},
    "linkAccount": {"provider": "google", "scopes": ["https://www.googleapis.com/auth/gmail.readonly"]},
    "prove": {"code": "123456"},
    "proofOptions": {},
    "sessionToken": {},
    "pasteLink": {"url": "https://tools.example.com/oauth/callback?code=one-time-code&state=opaque"},
}
