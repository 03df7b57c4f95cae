"""The arguments as a tool sees them: what was left out is what its schema says."""

from toolhall.model.json import JsonObject


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """The arguments with the defaults of the schema's own members."""
    members = schema.get("properties")
    if not isinstance(members, dict):
        return arguments
    left_out = {
        name: member["default"]
        for name, member in members.items()
        if name not in arguments and isinstance(member, dict) and "default" in member
    }
    return {**left_out, **arguments} if left_out else arguments
