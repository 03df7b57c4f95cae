"""Composition root: the only package that knows every component, and builds a Toolhall from them."""

from toolhall.app.toolhall import Toolhall as Toolhall
