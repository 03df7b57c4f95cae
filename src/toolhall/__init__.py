"""Toolhall's public API: write a tool once, serve it over MCP, REST, OXP and the hub protocol.

Public names are imported on first use (PEP 562), so that `import toolhall` is fast.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolhall.app.toolhall import Toolhall as Toolhall
    from toolhall.authoring.base_tool import BaseTool as BaseTool
    from toolhall.authoring.base_tool import ToolRequest as ToolRequest
    from toolhall.authoring.base_tool import ToolResponse as ToolResponse
    from toolhall.authoring.context import Context as Context
    from toolhall.authoring.context import Given as Given
    from toolhall.authoring.declaration import BadDeclaration as BadDeclaration
    from toolhall.authoring.declaration import Toolkit as Toolkit
    from toolhall.authoring.declaration import tool as tool
    from toolhall.authoring.folder import Folder as Folder
    from toolhall.authoring.prompt import prompt as prompt
    from toolhall.authoring.resource import resource as resource
    from toolhall.authoring.skills import Skills as Skills
    from toolhall.client.client import Client as Client
    from toolhall.client.sync_client import SyncClient as SyncClient
    from toolhall.config import Config as Config
    from toolhall.mcp_client.session import SessionError as SessionError
    from toolhall.model.content import Audio as Audio
    from toolhall.model.content import Image as Image
    from toolhall.model.content import Message as Message
    from toolhall.model.content import Notes as Notes
    from toolhall.model.content import Reply as Reply
    from toolhall.model.content import Resource as Resource
    from toolhall.model.content import ResourceLink as ResourceLink
    from toolhall.model.content import Text as Text
    from toolhall.model.errors import LifespanFailed as LifespanFailed
    from toolhall.model.errors import ToolError as ToolError
    from toolhall.model.errors import ToolFailed as ToolFailed
    from toolhall.model.errors import ToolhallError as ToolhallError
    from toolhall.model.messages import Answered as Answered
    from toolhall.model.messages import Filled as Filled
    from toolhall.model.messages import Form as Form
    from toolhall.model.messages import Question as Question
    from toolhall.model.messages import Root as Root
    from toolhall.model.messages import Rooted as Rooted
    from toolhall.model.messages import Roots as Roots
    from toolhall.model.messages import Sample as Sample
    from toolhall.model.messages import Sampled as Sampled
    from toolhall.model.messages import Visit as Visit
    from toolhall.model.page import Csp as Csp
    from toolhall.model.tool import Annotations as Annotations
    from toolhall.model.tool import Icon as Icon
    from toolhall.model.tool import Task as Task
    from toolhall.registration.rules import BrokenPromise as BrokenPromise

__version__ = "0.1.0"

# The module that defines each public name.
_HOMES = {
    "Toolhall": "toolhall.app.toolhall",
    "BaseTool": "toolhall.authoring.base_tool",
    "ToolRequest": "toolhall.authoring.base_tool",
    "ToolResponse": "toolhall.authoring.base_tool",
    "Context": "toolhall.authoring.context",
    "Given": "toolhall.authoring.context",
    "BadDeclaration": "toolhall.authoring.declaration",
    "tool": "toolhall.authoring.declaration",
    "Toolkit": "toolhall.authoring.declaration",
    "Folder": "toolhall.authoring.folder",
    "prompt": "toolhall.authoring.prompt",
    "resource": "toolhall.authoring.resource",
    "Skills": "toolhall.authoring.skills",
    "Client": "toolhall.client.client",
    "SyncClient": "toolhall.client.sync_client",
    "Config": "toolhall.config",
    "SessionError": "toolhall.mcp_client.session",
    "Audio": "toolhall.model.content",
    "Image": "toolhall.model.content",
    "Message": "toolhall.model.content",
    "Notes": "toolhall.model.content",
    "Reply": "toolhall.model.content",
    "Resource": "toolhall.model.content",
    "ResourceLink": "toolhall.model.content",
    "Text": "toolhall.model.content",
    "LifespanFailed": "toolhall.model.errors",
    "ToolError": "toolhall.model.errors",
    "ToolFailed": "toolhall.model.errors",
    "ToolhallError": "toolhall.model.errors",
    "Answered": "toolhall.model.messages",
    "Filled": "toolhall.model.messages",
    "Form": "toolhall.model.messages",
    "Question": "toolhall.model.messages",
    "Root": "toolhall.model.messages",
    "Rooted": "toolhall.model.messages",
    "Roots": "toolhall.model.messages",
    "Sample": "toolhall.model.messages",
    "Sampled": "toolhall.model.messages",
    "Visit": "toolhall.model.messages",
    "Csp": "toolhall.model.page",
    "Annotations": "toolhall.model.tool",
    "Icon": "toolhall.model.tool",
    "Task": "toolhall.model.tool",
    "BrokenPromise": "toolhall.registration.rules",
}

__all__ = [
    "Annotations",
    "Answered",
    "Audio",
    "BadDeclaration",
    "BaseTool",
    "BrokenPromise",
    "Client",
    "Config",
    "Context",
    "Csp",
    "Filled",
    "Folder",
    "Form",
    "Given",
    "Icon",
    "Image",
    "LifespanFailed",
    "Message",
    "Notes",
    "Question",
    "Reply",
    "Resource",
    "ResourceLink",
    "Root",
    "Rooted",
    "Roots",
    "Sample",
    "Sampled",
    "SessionError",
    "Skills",
    "SyncClient",
    "Task",
    "Text",
    "ToolError",
    "ToolFailed",
    "ToolRequest",
    "ToolResponse",
    "Toolhall",
    "ToolhallError",
    "Toolkit",
    "Visit",
    "prompt",
    "resource",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolhall' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
