"""The composition root: the only place that knows every part."""

from toolhall.app.toolhall import Toolhall as Toolhall
